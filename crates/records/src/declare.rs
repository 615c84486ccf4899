//! The macros with which forms are declared.
//!
//! A declaration is checked against the struct by the compiler: one that lacks a field, or has one
//! that the struct does not, is an error. What a declaration says of the past is checked by the
//! golden files.

/// Declares a type around one value, which is written as that value.
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

/// Declares a row: its fields in the order in which they are written. A field that is added goes to
/// the end, after a semicolon: `row!(Cell { name, disabled; region })`. Its type needs a default,
/// which is what rows of older releases have. Added fields are not written if they and all behind
/// them have their default: a row without anything new is what it always was.
macro_rules! row {
    ($type:ty { $($field:ident),* $(,)? $(; $($added:ident),+ $(,)?)? }) => {
        impl $crate::form::Form for $type {
            fn write(&self, out: &mut $crate::form::Writer) {
                out.row(|out| {
                    $( self.$field.write(out); )*
                    $(
                        let mut end = out.position();
                        $( end = out.added(&self.$added, end); )+
                        out.cut(end);
                    )?
                });
            }

            fn read(
                from: &mut $crate::form::Reader<'_>,
            ) -> Result<Self, $crate::form::FormError> {
                from.row(|from| Ok(Self {
                    $( $field: $crate::form::Form::read(from)?, )*
                    $( $( $added: from.added()?, )+ )?
                }))
            }
        }
    };
}

/// Declares a choice: the number of each variant, which never changes, and its fields in the order
/// in which they are written. Fields are added as in [`row!`]. A variant that is added gets the
/// next number; older releases refuse it by that number.
macro_rules! choice {
    ($type:ty { $(
        $number:literal $variant:ident
        $({ $($field:ident),* $(,)? $(; $($added:ident),+ $(,)?)? })?
        $(( $($item:ident),+ $(; $($more:ident),+)? ))?
    ),* $(,)? }) => {
        impl $crate::form::Form for $type {
            fn write(&self, out: &mut $crate::form::Writer) {
                match self {$(
                    Self::$variant
                        $({ $($field,)* $($($added,)+)? })?
                        $(( $($item,)+ $($($more,)+)? ))? =>
                    {
                        out.variant($number, |_out| {
                            $(
                                $( $field.write(_out); )*
                                $(
                                    let mut end = _out.position();
                                    $( end = _out.added($added, end); )+
                                    _out.cut(end);
                                )?
                            )?
                            $(
                                $( $item.write(_out); )+
                                $(
                                    let mut end = _out.position();
                                    $( end = _out.added($more, end); )+
                                    _out.cut(end);
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
                            $($( let $added = from.added()?; )+)?
                        )?
                        $(
                            $( let $item = $crate::form::Form::read(from)?; )+
                            $($( let $more = from.added()?; )+)?
                        )?
                        Ok(Self::$variant
                            $({ $($field,)* $($($added,)+)? })?
                            $(( $($item,)+ $($($more,)+)? ))?)
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

/// Declares a choice among names, which will never have fields: the number of each.
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
