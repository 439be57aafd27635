//! Shapes that no tensor can have.

/// A shape and elements that do not belong together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A shape and its data disagree.
    #[error("a tensor of shape {shape:?} needs {expected} elements, found {found}")]
    Length {
        /// The shape.
        shape: Vec<usize>,
        /// Elements the shape asks for.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// A shape whose number of elements does not fit the machine.
    #[error("a tensor of shape {shape:?} has more elements than can be addressed")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
}
