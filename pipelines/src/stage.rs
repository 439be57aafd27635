//! What a stage is: how it is described, what it takes and gives, and how it runs.
//!
//! It knows no kind of stage; those are listed in `stages`. Its invariant: a stage sees the values that its plan names, and the
//! tables, stores and models that it was opened with.

use crate::opening::{Opened, Opening};
use crate::planner::Place;
use crate::times::StageTime;
use crate::wait::Kept;
use crate::{Error, Items, Value, Wait};
use millpond_backends_interface::Port;
use millpond_tensor::Tensor;

/// What kind of value a stage takes or gives, as far as the plan knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// What the items are.
    pub kind: Kind,
    /// How many rows there are.
    pub rows: Rows,
    /// How many items a row has.
    pub per_row: PerRow,
}

/// What items are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Texts.
    Texts,
    /// Keys of feature tables.
    Keys,
    /// Rows of floats, or what a model gives to a later stage.
    Floats,
    /// What the last stage gives: one float a row.
    Scores,
    /// A tensor an item, each of a shape of its own: images.
    Tensors,
    /// Known when a request runs; a stage that needs something else then refuses the request.
    Any,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Texts => "texts",
            Kind::Keys => "keys",
            Kind::Floats => "floats",
            Kind::Scores => "scores",
            Kind::Tensors => "tensors",
            Kind::Any => "any values",
        }
    }

    /// Whether a value of this kind may be one of that kind.
    pub(crate) fn may_be(self, wanted: Kind) -> bool {
        self == wanted || self == Kind::Any || wanted == Kind::Any
    }
}

/// How many rows a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One, whatever the request.
    One,
    /// One for each item or sample.
    Each,
}

/// How many items a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerRow {
    /// Exactly one.
    One,
    /// One, or several when the request gives a list: known when it comes.
    OneOrSeveral,
    /// Any number, none included.
    Several,
}

/// What a stage of the configuration names outside of its pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'d> {
    /// The key that names it, `lookup.table`.
    pub key: &'static str,
    /// The section of the configuration that defines it.
    pub section: &'static str,
    /// What it is called there.
    pub name: &'d str,
}

/// A stage as the configuration describes it.
pub trait Describe {
    /// Says through `place` what it takes, and returns the form of what it gives.
    ///
    /// # Errors
    /// [`Error::Description`], which names the stage, the key, and what to write instead.
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error>;

    /// What its keys name of other stages and of the request, whether it fits or not.
    fn reads(&self) -> Vec<&str>;

    /// Whether it takes what stands before it, because its key `from` is left out.
    fn follows(&self) -> bool {
        false
    }

    /// Whether it works on threads of its own, by [`Opening::on_threads`]: its work takes long, as that of a decoder. Such stages
    /// take the keys `instances`, `queue_max` and `queue_bytes_max`.
    fn has_threads(&self) -> bool {
        false
    }

    /// The tables, stores and models that its keys name.
    fn names(&self) -> Option<Name<'_>> {
        None
    }

    /// Finds what it works with. `given` are the tensors that it takes, in its plan's order; `None` is something else, or what is
    /// known when a request runs.
    ///
    /// # Errors
    /// [`Error::Unfit`].
    fn open(&self, stage: &str, given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error>;
}

/// One stage of a pipeline, ready to run for any number of requests at a time.
pub trait Stage: Send + Sync {
    /// Does its work for one request: for all items of all values that it takes. What works item by item carries the offsets of
    /// its value along ([`Value::with`]), so that what was one row stays one.
    ///
    /// # Errors
    /// A request, or something stored, that does not fit; it ends the request.
    fn run(&self, given: &Given<'_>) -> Result<Step, Error>;

    /// Its value, of what the model that it waited for has given.
    ///
    /// # Errors
    /// Outputs that are not what the stage is to give.
    fn finish(&self, outputs: Vec<Tensor>, kept: Kept) -> Result<Step, Error> {
        let first = outputs.into_iter().next();
        let first = first.ok_or_else(|| Error::not_given("an output of its model"))?;
        Ok(Step::Value(Value {
            items: Items::Tensor(first),
            offsets: kept.offsets,
        }))
    }
}

/// What a stage came to.
pub enum Step {
    /// Its value is there.
    Value(Value),
    /// Its values are there: of a model of which several outputs are read.
    Values(Vec<Value>),
    /// Its value is what a model gives.
    Wait(Wait),
    /// It has no value for this request; stages that take it are left out as well.
    Skip,
}

/// A place for one value of a request on its way through the stages.
#[derive(Debug, Default)]
pub struct Slot {
    pub(crate) state: State,
    /// How many stages and outputs are still to read it.
    pub(crate) readers: u32,
    /// What the stage took whose first value is here.
    pub(crate) time: StageTime,
}

/// What there is of a value.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// Its stage has not begun.
    #[default]
    Open,
    /// Its stage waits for a model.
    Waits,
    There(Value),
    /// Its stage has no value for this request.
    Skipped,
    /// All that read it have.
    Spent,
}

impl Slot {
    /// A value that is there.
    pub fn of(value: Value) -> Slot {
        Slot {
            state: State::There(value),
            readers: 1,
            time: StageTime::default(),
        }
    }

    /// Lets go of the value, whoever is still to read it.
    pub(crate) fn clear(&mut self) {
        self.state = State::Spent;
    }

    /// The value, if it is there.
    pub(crate) fn value(&self) -> Option<&Value> {
        match &self.state {
            State::There(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self.state, State::Open | State::Waits)
    }

    /// Counts a reader off, and lets go of the value behind the last one.
    pub(crate) fn release(&mut self) {
        self.readers = self.readers.saturating_sub(1);
        if self.readers == 0 && matches!(self.state, State::There(_)) {
            self.state = State::Spent;
        }
    }

    /// The value for one of its readers: itself for the last one, else a copy.
    pub(crate) fn take(&mut self) -> Option<Value> {
        let value = match self.readers {
            0 | 1 => match std::mem::replace(&mut self.state, State::Spent) {
                State::There(value) => Some(value),
                other => {
                    self.state = other;
                    None
                }
            },
            _ => self.value().cloned(),
        };
        self.release();
        value
    }
}

/// What a stage sees of one request.
pub struct Given<'r> {
    slots: &'r [Slot],
    takes: &'r [usize],
    rows: Option<usize>,
}

impl<'r> Given<'r> {
    /// What stands at `takes` in `slots`; a request of values has no `rows` of its own.
    pub fn new(slots: &'r [Slot], takes: &'r [usize], rows: Option<usize>) -> Given<'r> {
        Given { slots, takes, rows }
    }

    /// What it takes, in its plan's order.
    ///
    /// # Errors
    /// [`Error::Internal`] where its plan names fewer.
    pub fn value(&self, at: usize) -> Result<&'r Value, Error> {
        let value = self.takes.get(at).and_then(|at| self.slots.get(*at)?.value());
        value.ok_or_else(|| Error::not_given("all that it takes"))
    }

    /// All that it takes.
    pub fn values(&self) -> impl Iterator<Item = &'r Value> {
        let slots = self.slots;
        self.takes.iter().filter_map(move |at| slots.get(*at)?.value())
    }

    /// Rows of the request: its items or samples. A request of values has none; each value has its own.
    pub fn request_rows(&self) -> Option<usize> {
        self.rows
    }

    /// Rows to work on: those of the request; for a request of values the items of what the stage takes, where one fits any number.
    pub fn rows(&self) -> usize {
        self.rows.unwrap_or_else(|| {
            let items = self.values().map(|value| value.items.len());
            items.fold(1, |items, own| if own == 1 { items } else { own })
        })
    }
}
