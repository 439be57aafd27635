//! Values between Python and Millpond, both ways: arrays share their memory, texts and bytes are copied.
//!
//! It knows no pipeline. Its invariant: memory that is shared lives as long as anybody on either side reads it.

pub(crate) mod array;
mod dlpack;
pub(crate) mod give;
mod memory;
pub(crate) mod take;
