//! Enumerations whose numbers others write.

/// Enumerations, and for each the reverse of `as`.
macro_rules! numbered {
    ($(
        $(#[$outer:meta])* $vis:vis enum $name:ident: $repr:ty { $($(#[$inner:meta])* $variant:ident = $number:literal,)* }
    )*) => {$(
        $(#[$outer])*
        $vis enum $name { $($(#[$inner])* $variant = $number,)* }

        impl $name {
            /// That of a number, if there is one.
            #[inline(always)]
            pub const fn of(number: $repr) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

pub(crate) use numbered;
