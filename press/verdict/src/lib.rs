//! What measured points mean: whether they can be believed and what bounded them, whether an objective or a bar is met, how targets
//! compare, and which rate a search tries next.
//!
//! Nothing here reads a clock, a file or a socket. Its invariant: the same points get the same answers, whether a run, a search, a
//! report or a bench asks.
//!
//! ```
//! use millpond_press_verdict::{Judgement, Point, judge};
//!
//! let verdict = judge(&Point::default());
//! assert_eq!(verdict.judgement, Judgement::Unstable);
//! assert!(verdict.sentence.starts_with("No request got an answer that counts"));
//! ```

mod bar;
mod comparison;
mod exit_code;
mod judge;
mod load;
mod outcomes;
mod point;
mod search;
mod slo;

pub use bar::{
    Bar, BarOutcome, Conditions, Decision, Figure, Formula, Measured, MetricOf, Op, PAIRS_MIN, Series,
    Standing, Value, figure,
};
pub use comparison::comparisons;
pub use exit_code::exit_code;
pub use judge::{is_doubted, judge};
pub use load::{load_in_words, point_in_words};
pub use point::{
    Antagonists, Bound, Comparison, Cpu, Held, Judgement, LoadKind, Offered, OperationResult, Point, Search,
    Second, Server, SloOutcome, Split, Stage, TargetName, Tried, Verdict, WarmUp,
};
pub use search::{Edge, Next, knee, sentence};
pub use slo::Slo;
