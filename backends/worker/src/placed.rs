//! Where tensors lie in shared memory, as messages say it: one after the other, or in groups of one request each.
//!
//! Bytes alone. Its invariant: reading takes no more memory than the bytes do, whatever they say.

use millpond_backends_interface::Signature;
use millpond_backends_interface::foreign::{PORTS_MAX, RANK_MAX};

/// Bytes of a tensor without its sizes, and of a size.
const TENSOR_BYTES: usize = 24;
const SIZE_BYTES: usize = 8;
/// Bytes of a group without its tensors.
const GROUP_BYTES: usize = 8;

/// Where a tensor lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The number of its type.
    pub(crate) element_type: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) shape: Vec<u64>,
}

/// The tensors of one request of several, or of its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// The request failed: its one tensor is why, a byte string.
    pub(crate) is_failure: bool,
    pub(crate) tensors: Vec<Placed>,
}

impl Group {
    pub(crate) fn of(tensors: Vec<Placed>) -> Group {
        let is_failure = false;
        Group { is_failure, tensors }
    }
}

/// How many requests of that signature fit a message of so many bytes, as requests and as results.
pub(crate) fn groups_max(signature: &Signature, bytes: usize) -> usize {
    let of = |ports: &[millpond_backends_interface::Port]| {
        let ports = ports.iter();
        let tensors = ports.map(|port| TENSOR_BYTES + SIZE_BYTES * port.shape.len());
        GROUP_BYTES + tensors.sum::<usize>()
    };
    bytes / of(&signature.inputs).max(of(&signature.outputs))
}

pub(crate) fn put_tensors(out: &mut Vec<u8>, tensors: &[Placed]) {
    for tensor in tensors {
        out.extend(tensor.element_type.to_le_bytes());
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        out.extend(tensor.at.to_le_bytes());
        out.extend(tensor.bytes.to_le_bytes());
        let sizes = tensor.shape.iter();
        sizes.for_each(|size| out.extend(size.to_le_bytes()));
    }
}

pub(crate) fn put_groups(out: &mut Vec<u8>, groups: &[Group]) {
    for group in groups {
        out.extend(u32::from(group.is_failure).to_le_bytes());
        out.extend((group.tensors.len() as u32).to_le_bytes());
        put_tensors(out, &group.tensors);
    }
}

/// What is left to read of a message.
pub(crate) struct Input<'a>(&'a [u8]);

impl Input<'_> {
    pub(crate) fn of(bytes: &[u8]) -> Input<'_> {
        Input(bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or("a message is cut short")?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, String> {
        let text = std::str::from_utf8(std::mem::take(&mut self.0));
        text.map(str::to_owned)
            .map_err(|_| "a text that is not UTF-8".to_owned())
    }

    pub(crate) fn words(&mut self) -> String {
        String::from_utf8_lossy(std::mem::take(&mut self.0)).into_owned()
    }

    pub(crate) fn groups(&mut self, count: u32) -> Result<Vec<Group>, String> {
        (0..count).map(|_| self.group()).collect()
    }

    fn group(&mut self) -> Result<Group, String> {
        let (outcome, count) = (self.u32()?, self.u32()?);
        let is_failure = match outcome {
            0 => false,
            1 => true,
            other => return Err(format!("a request with the outcome {other}")),
        };
        let tensors = self.tensors(count)?;
        Ok(Group { is_failure, tensors })
    }

    pub(crate) fn tensors(&mut self, count: u32) -> Result<Vec<Placed>, String> {
        if count as usize > PORTS_MAX {
            return Err(format!("{count} tensors, where {PORTS_MAX} are the most"));
        }
        (0..count).map(|_| self.tensor()).collect()
    }

    fn tensor(&mut self) -> Result<Placed, String> {
        let (element_type, rank) = (self.u32()?, self.u32()?);
        if rank as usize > RANK_MAX {
            return Err(format!(
                "a tensor of {rank} dimensions, where {RANK_MAX} are the most"
            ));
        }
        Ok(Placed {
            element_type,
            at: self.u64()?,
            bytes: self.u64()?,
            shape: (0..rank).map(|_| self.u64()).collect::<Result<_, _>>()?,
        })
    }
}
