//! Runs by ONNX Runtime's binding of inputs and outputs. Inputs are copied into memory of one allocator, and so are outputs whose shape
//! is known before the run: a device copies from and to pinned memory without a copy of the driver's in between.
//!
//! A binding is one instance's. Its invariants: nothing is bound between two runs; and for each input and output it keeps
//! [`KEPT_BYTES_MAX`] at most, reused by every run that needs no more. What is larger is bound where it lies. A file may say a wrong
//! shape of an output, which a plain run does not heed: then outputs come into memory of the library's own.
#![allow(unsafe_code)]

use super::{Names, Value, check_count, sizes};
use crate::library::Runtime;
use crate::{bounded, convert};
use millpond_tensor::{ElementType, Tensor};
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{IoBinding, RunOptions, Session};
use ort::sys::OrtValue;
use ort::{AsPointer, Error, Result};
use std::ffi::c_void;
use std::iter;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

/// Bytes that are kept for one input or output. Larger ones take so long that their copies are no longer the question.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes that are kept at least, so that small runs of growing size do not make new ones each time.
const KEPT_BYTES_LEAST: usize = 4096;

/// A shape and its type, known before a run.
pub(crate) type Known = (ElementType, Vec<usize>);

/// What binds one instance's runs.
pub(crate) struct Binding {
    /// Dropped before the binding, which holds the session that the allocator is of.
    memory: Memory,
    binding: IoBinding,
    names: Arc<Names>,
    /// Outputs of known shape come into memory that is kept: until the shape of one is not what the file says.
    keeps_outputs: bool,
}

/// Memory of one allocator, at most one block for each input and output.
struct Memory {
    allocator: Allocator,
    /// Those of the inputs, then those of the outputs.
    blocks: Vec<Block>,
}

#[derive(Default)]
struct Block {
    at: Option<NonNull<c_void>>,
    bytes: usize,
}

// SAFETY: a block is plain memory that its holder alone reads and writes, wherever it runs.
unsafe impl Send for Block {}

impl Memory {
    /// Space for so many bytes in that block, made larger where it must be; `None` where it would be more than is kept.
    fn space(&mut self, block: usize, bytes: usize) -> Result<Option<NonNull<c_void>>> {
        let Some(block) = self.blocks.get_mut(block).filter(|_| bytes <= KEPT_BYTES_MAX) else {
            return Ok(None);
        };
        if block.at.is_none() || block.bytes < bytes {
            block.free(&self.allocator);
            let bytes = bytes.max(KEPT_BYTES_LEAST).next_power_of_two();
            block.at = NonNull::new(self.allocator.alloc::<u8>(bytes)?.into_raw());
            block.bytes = bytes;
        }
        Ok(block.at)
    }
}

impl Block {
    fn free(&mut self, allocator: &Allocator) {
        if let Some(at) = self.at.take() {
            // SAFETY: this allocator made it, and nothing is bound to it between two runs.
            unsafe { allocator.free(at.as_ptr()) }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for block in &mut self.blocks {
            block.free(&self.allocator);
        }
    }
}

impl Binding {
    /// Binds runs of that session. `pinned` is the CUDA device whose pinned memory is used; the processor's without.
    pub(crate) fn new(session: &Session, names: &Arc<Names>, pinned: Option<i32>) -> Result<Binding> {
        let allocator = match pinned {
            Some(device) => {
                let (place, kind) = (AllocationDevice::CUDA_PINNED, AllocatorType::Device);
                Allocator::new(session, MemoryInfo::new(place, device, kind, MemoryType::CPU)?)?
            }
            None => Allocator::default(),
        };
        let mut blocks = Vec::new();
        blocks.resize_with(names.inputs.len() + names.outputs.len(), Block::default);
        Ok(Binding {
            binding: session.create_binding()?,
            names: Arc::clone(names),
            memory: Memory { allocator, blocks },
            keeps_outputs: true,
        })
    }

    /// Runs the session once, as [`run`](super::run) does. `known` says for each output what its shape will be, where that is known. A
    /// run that fails for want of that shape is made once more without.
    pub(crate) fn run<'a>(
        &'a mut self,
        runtime: &Runtime,
        session: &Session,
        options: &RunOptions,
        inputs: &'a [Tensor],
        known: impl Iterator<Item = Option<Known>>,
    ) -> Result<Vec<Value<'a>>> {
        check_count(&self.names, inputs.len())?;
        let is_kept = self.keeps_outputs;
        let error = match self.run_once(runtime, session, options, inputs, known) {
            Err(error) if is_kept && is_of_shapes(&error) => error,
            ran => return ran,
        };
        self.keeps_outputs = false;
        let ran = self.run_once(runtime, session, options, inputs, iter::empty());
        // One that fails either way fails by its inputs, which says nothing of the file.
        self.keeps_outputs = ran.is_err();
        if ran.is_ok() {
            let error = bounded(error.message());
            tracing::warn!(
                error,
                "an output has another shape than the model's file says, so outputs come into memory that is not kept; correct the file"
            );
        }
        ran
    }

    fn run_once<'a>(
        &mut self,
        runtime: &Runtime,
        session: &Session,
        options: &RunOptions,
        inputs: &'a [Tensor],
        known: impl Iterator<Item = Option<Known>>,
    ) -> Result<Vec<Value<'a>>> {
        let bound = self
            .bind(runtime, inputs, known)
            .and_then(|()| self.run_bound(session, options));
        let outputs = bound.and_then(|()| self.outputs());
        // The library holds values of its own; what they point to is ours.
        self.binding.clear();
        outputs
    }

    fn bind(
        &mut self,
        runtime: &Runtime,
        inputs: &[Tensor],
        known: impl Iterator<Item = Option<Known>>,
    ) -> Result<()> {
        let api = ort::api();
        let binding = self.binding.ptr().cast_mut();
        for (index, (tensor, name)) in inputs.iter().zip(&self.names.inputs).enumerate() {
            let value = staged(&mut self.memory, index, runtime, tensor)?;
            // SAFETY: the binding, the name and the value live. What the value points to is not touched until it is unbound.
            unsafe {
                Error::result_from_status((api.BindInput)(binding, name.as_ptr(), value.value.as_ptr()))
            }?;
        }
        let known = known.filter(|_| self.keeps_outputs).chain(iter::repeat(None));
        for (index, (name, known)) in self.names.outputs.iter().zip(known).enumerate() {
            let block = inputs.len() + index;
            let value = known
                .map(|known| kept(&mut self.memory, block, runtime, &known))
                .transpose()?;
            // SAFETY: as above. An output of unknown shape comes into memory of the library's own, on the processor.
            let status = unsafe {
                match value.flatten() {
                    Some(value) => (api.BindOutput)(binding, name.as_ptr(), value.value.as_ptr()),
                    None => (api.BindOutputToDevice)(binding, name.as_ptr(), runtime.memory.ptr()),
                }
            };
            // SAFETY: the status is the call's own.
            unsafe { Error::result_from_status(status) }?;
        }
        Ok(())
    }

    fn run_bound(&mut self, session: &Session, options: &RunOptions) -> Result<()> {
        self.binding.synchronize_inputs()?;
        // SAFETY: all of them live, and the binding is this instance's: no other run uses it. The session may be shared, as in `run`.
        let ran = unsafe {
            let status =
                (ort::api().RunWithBinding)(session.ptr().cast_mut(), options.ptr(), self.binding.ptr());
            Error::result_from_status(status)
        };
        // A run that failed or was ended may have copies under way as well, and the next one writes to the same memory.
        let synchronized = self.binding.synchronize_outputs();
        ran.and(synchronized)
    }

    /// What the run gave, in the order of the names.
    fn outputs<'a>(&self) -> Result<Vec<Value<'a>>> {
        let (mut values, mut count): (*mut *mut OrtValue, usize) = (ptr::null_mut(), 0);
        let api = ort::api();
        let mut allocator = ptr::null_mut();
        // SAFETY: the binding lives, and the allocator is the library's own; it makes the list of values, which it frees again.
        let made = unsafe {
            Error::result_from_status((api.GetAllocatorWithDefaultOptions)(&mut allocator))?;
            let status = (api.GetBoundOutputValues)(self.binding.ptr(), allocator, &mut values, &mut count);
            Error::result_from_status(status)?;
            let Some(list) = NonNull::new(values).filter(|_| count > 0) else {
                return Err(Error::new("ONNX Runtime gave no outputs"));
            };
            let made = slice::from_raw_parts(list.as_ptr().cast_const(), count).to_vec();
            Error::result_from_status((api.AllocatorFree)(allocator, values.cast()))?;
            made
        };
        made.into_iter().map(Value::of).collect()
    }
}

/// Whether a run failed for a shape, as one does whose output does not fit into the memory that it is bound to. Others are not made again:
/// a caller who knows how to have a run fail would have two of them for each.
fn is_of_shapes(error: &Error) -> bool {
    let message = error.message();
    ["shape", "Shape", "size mismatch"]
        .iter()
        .any(|word| message.contains(word))
}

/// The tensor in memory that is kept; where it lies, if it is too large for that.
fn staged<'a>(memory: &mut Memory, block: usize, runtime: &Runtime, tensor: &'a Tensor) -> Result<Value<'a>> {
    let (Some((data, bytes)), Some(space)) = (
        convert::place(tensor.elements()),
        memory.space(block, tensor.bytes())?,
    ) else {
        return Value::of_tensor(runtime, tensor);
    };
    // SAFETY: the block is at least so long, and another's memory than the tensor's.
    unsafe { ptr::copy_nonoverlapping(data.cast::<u8>(), space.cast().as_ptr(), bytes) };
    let shape = sizes(tensor.shape())?;
    // SAFETY: the elements were just written there; the block stays until the value is unbound.
    unsafe {
        Value::over(
            memory.allocator.memory_info(),
            space.as_ptr(),
            bytes,
            &shape,
            tensor.element_type(),
        )
    }
}

/// A value for an output in memory that is kept; `None` where it would be too large. Whatever allocator made that memory, the library is told
/// that it is the processor's plain memory: of an output in pinned memory, named so, the CUDA provider of 1.31.1 makes a copy from itself to
/// itself, and refuses it ("dst_data != src_data").
fn kept<'a>(
    memory: &mut Memory,
    block: usize,
    runtime: &Runtime,
    (element_type, shape): &Known,
) -> Result<Option<Value<'a>>> {
    let bytes_of = |width| {
        shape
            .iter()
            .try_fold(width, |bytes: usize, size| bytes.checked_mul(*size))
    };
    let Some(bytes) = element_type.bytes().and_then(bytes_of) else {
        return Ok(None);
    };
    let Some(space) = memory.space(block, bytes)? else {
        return Ok(None);
    };
    let info = &runtime.memory;
    // SAFETY: the block is at least so long, is written by the run alone, and stays until the value is unbound and read.
    unsafe { Value::over(info, space.as_ptr(), bytes, &sizes(shape)?, *element_type) }.map(Some)
}
