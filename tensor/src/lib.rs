//! Typed, dense, row-major arrays: what models take and give, and what pipelines pass on.
//!
//! It is no arithmetic and no file format, and it knows no model and no wire. Its invariant: a [`Tensor`] has exactly as many
//! elements as its shape says.
//!
//! ```
//! use millpond_tensor::Tensor;
//!
//! let scores = Tensor::new(vec![3, 2], vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let last = scores.view(1..3).expect("rows 1 and 2"); // shares the elements
//! assert_eq!((last.shape(), last.f32()), (&[2, 2][..], Some(&[3.0, 4.0, 5.0, 6.0][..])));
//! assert_eq!(Tensor::concat([&last, &last]).expect("equal rows").shape(), [4, 2]);
//! # Ok::<(), millpond_tensor::Error>(())
//! ```

mod bytes;
mod element;
mod error;
mod resize;
mod tensor;

pub use bytes::{Bytes, BytesView};
pub use element::{Data, Element, ElementType, Elements, Kind};
pub use error::Error;
pub use half::{bf16, f16};
pub use tensor::Tensor;
