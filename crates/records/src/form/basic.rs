//! The forms of numbers, texts, lists and other types of the standard library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use super::{Form, FormError, Layout, Reader, Writer};

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Form for $number {
            #[inline]
            fn write(&self, out: &mut Writer) {
                out.number(u64::from(*self));
            }

            #[inline]
            fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
                Self::try_from(from.number()?).map_err(|_| FormError::Bad("a number"))
            }
        }
    )*};
}

numbers!(u16, u32, u64);

impl Form for usize {
    fn write(&self, out: &mut Writer) {
        out.number(u64::try_from(*self).unwrap_or(u64::MAX));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::try_from(from.number()?).map_err(|_| FormError::Bad("a number"))
    }
}

/// A message without content.
impl Form for () {
    fn write(&self, _: &mut Writer) {}

    fn read(_: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(())
    }
}

impl Form for u8 {
    fn write(&self, out: &mut Writer) {
        out.raw(&[*self]);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.array().map(|[byte]| byte)
    }
}

/// Zigzag encoding, so that numbers near zero are short, whatever their sign.
impl Form for i64 {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.number(((self << 1) ^ (self >> 63)).cast_unsigned());
    }

    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let number = from.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

impl Form for i32 {
    fn write(&self, out: &mut Writer) {
        i64::from(*self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::try_from(i64::read(from)?).map_err(|_| FormError::Bad("a number"))
    }
}

impl Form for f64 {
    fn write(&self, out: &mut Writer) {
        out.raw(&self.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.array().map(Self::from_le_bytes)
    }
}

impl Form for bool {
    fn write(&self, out: &mut Writer) {
        out.raw(&[u8::from(*self)]);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        match from.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(FormError::Bad("a yes or no")),
        }
    }
}

impl Form for String {
    fn write(&self, out: &mut Writer) {
        // `Writer::text` joins two parts, and here there is one.
        out.text(self, "");
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.text().map(str::to_owned)
    }
}

/// Sixteen bytes. In the positional layout, that of older releases, the number 16 precedes them.
impl Form for Uuid {
    #[inline]
    fn write(&self, out: &mut Writer) {
        if out.layout() == Layout::Positional {
            out.length(16);
        }
        out.raw(self.as_bytes());
    }

    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        if from.layout() == Layout::Positional && from.number()? != 16 {
            return Err(FormError::Bad("a UUID"));
        }
        from.array().map(Self::from_bytes)
    }
}

impl<T: Form> Form for Option<T> {
    fn write(&self, out: &mut Writer) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        if bool::read(from)? {
            return T::read(from).map(Some);
        }
        Ok(None)
    }
}

impl<T: Form> Form for Box<T> {
    fn write(&self, out: &mut Writer) {
        (**self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        T::read(from).map(Self::new)
    }
}

/// A value that several values may share. After reading, each of these values has a copy of its own.
impl<T: Form> Form for Arc<T> {
    fn write(&self, out: &mut Writer) {
        (**self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        T::read(from).map(Self::new)
    }
}

impl<T: Form> Form for Vec<T> {
    fn write(&self, out: &mut Writer) {
        write_list(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let count = from.length()?;
        T::read_items(count, from)
    }
}

/// A list that several values may share. After reading, each of these values has a copy of its own.
impl<T: Form> Form for Arc<[T]> {
    fn write(&self, out: &mut Writer) {
        write_list(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Vec::read(from).map(Self::from)
    }
}

/// Appends a list: the number of its items, and the items.
pub(crate) fn write_list<T: Form>(list: &[T], out: &mut Writer) {
    out.length(list.len());
    T::write_items(list, out);
}

impl<T: Form, const N: usize> Form for [T; N] {
    fn write(&self, out: &mut Writer) {
        for item in self {
            item.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let items: Vec<T> = (0..N).map(|_| T::read(from)).collect::<Result<_, _>>()?;
        items.try_into().map_err(|_| FormError::Bad("a list"))
    }
}

impl<K: Form + Ord, V: Form> Form for BTreeMap<K, V> {
    fn write(&self, out: &mut Writer) {
        out.length(self.len());
        for (key, value) in self {
            key.write(out);
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let count = from.length()?;
        let mut map = Self::new();
        for _ in 0..count {
            let key = K::read(from)?;
            map.insert(key, V::read(from)?);
        }
        Ok(map)
    }
}

impl<T: Form + Ord> Form for BTreeSet<T> {
    fn write(&self, out: &mut Writer) {
        out.length(self.len());
        for item in self {
            item.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        (0..from.length()?).map(|_| T::read(from)).collect()
    }
}

impl<A: Form, B: Form> Form for (A, B) {
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok((A::read(from)?, B::read(from)?))
    }
}

impl<A: Form, B: Form, C: Form> Form for (A, B, C) {
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok((A::read(from)?, B::read(from)?, C::read(from)?))
    }
}
