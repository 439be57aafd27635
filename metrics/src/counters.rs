//! The declaration of a struct of counters together with its lines on the page.
//! Its invariant: a field and what is said of it are the same line of code.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A field that a page can show.
pub trait Count {
    /// As it is now.
    fn now(&self) -> f64;
}

macro_rules! count {
    ($($type:ty: $read:expr;)*) => {
        $(impl Count for $type {
            fn now(&self) -> f64 {
                let read: fn(&$type) -> f64 = $read;
                read(self)
            }
        })*
    };
}

count! {
    AtomicU64: |count| count.load(Ordering::Relaxed) as f64;
    AtomicUsize: |count| count.load(Ordering::Relaxed) as f64;
    u64: |count| *count as f64;
    usize: |count| *count as f64;
    f64: |count| *count;
    bool: |count| f64::from(*count);
}

/// Makes a struct of [`Count`] fields, and the lists of [`crate::Metric`] that read them.
///
/// A line is `pub field: AtomicU64 = counter("name", "help").label("key", "value")`, with the constructors and the qualifiers of
/// [`crate::Metric`]; the help is also the field's documentation. Fields that no page shows follow after `and`.
#[macro_export]
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $part:ident {
            $($(#[$of_list:meta])* $list:ident {
                $(
                    $field_visibility:vis $field:ident: $count:ty = $kind:ident($name:literal, $help:literal $(,)?)
                    $(.$with:ident($($argument:expr),*))*,
                )*
            })*
        }
        $(and {
            $($(#[$of_other:meta])* $other_visibility:vis $other:ident: $type:ty,)*
        })?
    ) => {
        $(#[$attribute])*
        $visibility struct $part {
            $($(#[doc = $help] $field_visibility $field: $count,)*)*
            $($($(#[$of_other])* $other_visibility $other: $type,)*)?
        }

        impl $part {
            $($(#[$of_list])*
            pub const $list: &'static [$crate::Metric<$part>] = &[$(
                $crate::Metric::<$part>::$kind($name, $help, |part: &$part| $crate::Count::now(&part.$field))
                    $(.$with($($argument),*))*,
            )*];)*
        }
    };
}
