//! What a part counts, declared once beside its counters: name, kind, help, label, and how several processes merge.
//!
//! `/metrics`, `*infos` and the parent of several processes derive from these lists; a part that counts one more thing adds a
//! line to its own. This crate knows no part. Its invariant: two processes of the same program merge
//! without knowing more than the declarations.
//!
//! ```
//! use millpond_metrics::{Metric, Page};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! millpond_metrics::counters! {
//!     /// What a door has seen.
//!     #[derive(Default)]
//!     pub struct Door {
//!         /// For the page of metrics.
//!         METRICS {
//!             pub open: AtomicU64 = gauge("door_open", "1 while it is open.").max(),
//!             pub guests: AtomicU64 = counter("door_guests_total", "Guests who came in.").info("guests"),
//!         }
//!     }
//! }
//!
//! let door = Door::default();
//! door.guests.fetch_add(3, Ordering::Relaxed);
//! let mut page = Page::default();
//! page.part(Door::METRICS, Some(&door));
//! assert!(page.text().ends_with("# TYPE door_guests_total counter\ndoor_guests_total 3\n"));
//! assert_eq!(Metric::infos(Door::METRICS, &door).collect::<Vec<_>>(), [("guests", 3.0)]);
//! ```

mod counters;
mod histogram;
mod octaves;
mod page;

pub use counters::Count;
pub use histogram::{Histogram, Times, bump};
pub use octaves::{OctaveHistogram, Octaves};
pub use page::{Page, Samples, Values};

/// What Prometheus takes a family for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It never falls, and stays counted when its process has died.
    Counter,
    /// A state of now.
    Gauge,
    /// Counts of times by length, or of sizes; they never fall either.
    Histogram,
}

impl Kind {
    /// As the exposition format spells it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// How the values of several processes become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// What each has, together.
    Sum,
    /// The highest.
    Max,
    /// The lowest.
    Min,
}

impl Merge {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Merge::Sum => one + other,
            Merge::Max => one.max(other),
            Merge::Min => one.min(other),
        }
    }
}

/// The declaration of all samples of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name on the page.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it counts, in a sentence.
    pub help: &'static str,
    /// How processes merge.
    pub merge: Merge,
}

/// One line of a part's list: a family, or one labelled sample of it, and how it is read from the part.
#[derive(Debug)]
pub struct Metric<P> {
    /// Where neighbours in a list have the same name, the help of the first is printed.
    pub family: Family,
    label: Option<(&'static str, &'static str)>,
    info: Option<&'static str>,
    /// How many of what is counted are one of what is printed.
    divisor: f64,
    read: Read<P>,
}

#[derive(Debug)]
enum Read<P> {
    Value(fn(&P) -> f64),
    Samples(fn(&P, &mut Samples<'_>)),
}

impl<P> Metric<P> {
    /// A number that never falls. Processes add up.
    pub const fn counter(name: &'static str, help: &'static str, read: fn(&P) -> f64) -> Metric<P> {
        Metric::new(name, Kind::Counter, help, Read::Value(read))
    }

    /// A state. Processes add up, unless it says otherwise.
    pub const fn gauge(name: &'static str, help: &'static str, read: fn(&P) -> f64) -> Metric<P> {
        Metric::new(name, Kind::Gauge, help, Read::Value(read))
    }

    /// Samples with labels of their own.
    pub const fn samples(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        read: fn(&P, &mut Samples<'_>),
    ) -> Metric<P> {
        Metric::new(name, kind, help, Read::Samples(read))
    }

    const fn new(name: &'static str, kind: Kind, help: &'static str, read: Read<P>) -> Metric<P> {
        let merge = Merge::Sum;
        Metric {
            family: Family {
                name,
                kind,
                help,
                merge,
            },
            label: None,
            info: None,
            divisor: 1.0,
            read,
        }
    }

    /// Of several processes the highest counts.
    #[must_use]
    pub const fn max(mut self) -> Metric<P> {
        self.family.merge = Merge::Max;
        self
    }

    /// Of several processes the lowest counts.
    #[must_use]
    pub const fn min(mut self) -> Metric<P> {
        self.family.merge = Merge::Min;
        self
    }

    /// The label of this sample of its family.
    #[must_use]
    pub const fn label(mut self, key: &'static str, value: &'static str) -> Metric<P> {
        self.label = Some((key, value));
        self
    }

    /// It is counted in microseconds and printed in seconds.
    #[must_use]
    pub const fn micros(mut self) -> Metric<P> {
        self.divisor = 1e6;
        self
    }

    /// `*infos` has it too, under that name.
    #[must_use]
    pub const fn info(mut self, name: &'static str) -> Metric<P> {
        self.info = Some(name);
        self
    }

    /// What `*infos` has of a part.
    pub fn infos<'p>(
        list: &'static [Metric<P>],
        part: &'p P,
    ) -> impl Iterator<Item = (&'static str, f64)> + use<'p, P> {
        list.iter().filter_map(move |metric| match metric.read {
            Read::Value(read) => Some((metric.info?, read(part) / metric.divisor)),
            Read::Samples(_) => None,
        })
    }
}
