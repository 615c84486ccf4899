//! The macros that declare forms.
//!
//! The compiler checks a declaration against its type: it is an error if a field is missing in the declaration
//! or in the type. The golden files in `tests` show whether the order or a number was changed.

/// Declares newtypes. Each is written as the value that it wraps.
macro_rules! wrapped {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::form::Form for $type {
            #[inline]
            fn write(&self, out: &mut $crate::form::Writer) {
                self.0.write(out);
            }

            #[inline]
            fn read(
                from: &mut $crate::form::Reader<'_>,
            ) -> Result<Self, $crate::form::FormError> {
                $crate::form::Form::read(from).map(Self)
            }
        }
    )*};
}

/// Declares a struct as a row: its fields in the order in which they are written. Fields that are
/// added later go to the end, after a semicolon: `row!(Cell { name, disabled; region })`. Their types
/// need a default, which is their value in rows of older releases. Trailing added fields that have
/// their default are not written, so a row without new values has the same bytes as before.
macro_rules! row {
    ($type:ty { $($field:ident),* $(,)? $(; $($added:ident),+ $(,)?)? }) => {
        impl $crate::form::Form for $type {
            fn write(&self, out: &mut $crate::form::Writer) {
                out.row(|out| {
                    $( self.$field.write(out); )*
                    $(
                        let mut row_end = out.position();
                        $( row_end = out.added_field(&self.$added, row_end); )+
                        out.truncate(row_end);
                    )?
                });
            }

            fn read(
                from: &mut $crate::form::Reader<'_>,
            ) -> Result<Self, $crate::form::FormError> {
                from.row(|from| Ok(Self {
                    $( $field: $crate::form::Form::read(from)?, )*
                    $( $( $added: from.added_field()?, )+ )?
                }))
            }
        }
    };
}

/// Declares an enum: the number of each variant, which never changes, and its fields in the order in
/// which they are written. Fields are added as in [`row!`]. A new variant gets the next number; older
/// releases do not know that number and refuse to read it.
macro_rules! choice {
    ($type:ty { $(
        $number:literal $variant:ident
        $({ $($field:ident),* $(,)? $(; $($added:ident),+ $(,)?)? })?
        $(( $($item:ident),+ $(; $($added_item:ident),+)? ))?
    ),* $(,)? }) => {
        impl $crate::form::Form for $type {
            fn write(&self, out: &mut $crate::form::Writer) {
                match self {$(
                    Self::$variant
                        $({ $($field,)* $($($added,)+)? })?
                        $(( $($item,)+ $($($added_item,)+)? ))? =>
                    {
                        out.variant($number, |_out| {
                            $(
                                $( $field.write(_out); )*
                                $(
                                    let mut row_end = _out.position();
                                    $( row_end = _out.added_field($added, row_end); )+
                                    _out.truncate(row_end);
                                )?
                            )?
                            $(
                                $( $item.write(_out); )+
                                $(
                                    let mut row_end = _out.position();
                                    $( row_end = _out.added_field($added_item, row_end); )+
                                    _out.truncate(row_end);
                                )?
                            )?
                        });
                    }
                )*}
            }

            fn read(
                from: &mut $crate::form::Reader<'_>,
            ) -> Result<Self, $crate::form::FormError> {
                from.row(|from| match from.number()? {
                    $( $number => {
                        $(
                            $( let $field = $crate::form::Form::read(from)?; )*
                            $($( let $added = from.added_field()?; )+)?
                        )?
                        $(
                            $( let $item = $crate::form::Form::read(from)?; )+
                            $($( let $added_item = from.added_field()?; )+)?
                        )?
                        Ok(Self::$variant
                            $({ $($field,)* $($($added,)+)? })?
                            $(( $($item,)+ $($($added_item,)+)? ))?)
                    } )*
                    number => Err($crate::form::FormError::Unknown {
                        what: stringify!($type),
                        number,
                    }),
                })
            }
        }
    };
}

/// Declares an enum whose variants will never have fields: the number of each variant.
macro_rules! names {
    ($type:ty { $( $number:literal $variant:ident ),* $(,)? }) => {
        impl $crate::form::Form for $type {
            fn write(&self, out: &mut $crate::form::Writer) {
                out.number(match self { $( Self::$variant => $number, )* });
            }

            fn read(
                from: &mut $crate::form::Reader<'_>,
            ) -> Result<Self, $crate::form::FormError> {
                match from.number()? {
                    $( $number => Ok(Self::$variant), )*
                    number => Err($crate::form::FormError::Unknown {
                        what: stringify!($type),
                        number,
                    }),
                }
            }
        }
    };
}
