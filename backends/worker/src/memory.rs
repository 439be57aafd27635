//! Memory that this process and another one share, and tensors' elements in it. All unsafe code of the crate is here.
//!
//! It knows no message. Its invariants: the memory never gets smaller or larger, so that no access meets a missing page; what lies in it
//! is copied before it is looked at, since the other process may change it at any time; and nothing is read or written beyond its end.
#![allow(unsafe_code)]

use memmap2::{MmapOptions, MmapRaw};
use millpond_backends_interface::foreign::strings;
use millpond_tensor::{Bytes, Data, ElementType, Elements, bf16, element_types, f16};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;

/// Elements begin at multiples of so many bytes.
const ALIGNMENT: usize = 64;
/// What says where a string ends.
const END_BYTES: usize = size_of::<u64>();

/// Shared memory, as it lies in this process.
pub(crate) struct Memory {
    map: MmapRaw,
}

/// The next place at which elements may begin.
pub(crate) fn aligned(at: usize) -> Option<usize> {
    at.checked_next_multiple_of(ALIGNMENT)
}

/// Bytes that elements take there.
pub(crate) fn space(elements: Elements<'_>) -> usize {
    match elements {
        Elements::Bytes(strings) => strings.len() * END_BYTES + strings.joined().len(),
        fixed => bytes_of(fixed).len(),
    }
}

impl Memory {
    /// New memory, and what another process maps it by.
    pub(crate) fn create(bytes: usize) -> io::Result<(Memory, OwnedFd)> {
        let file = memfd_create("millpond", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        Ok((Memory { map }, file))
    }

    /// Memory that another process made.
    pub(crate) fn of(file: impl AsFd, bytes: usize) -> io::Result<Memory> {
        let has = usize::try_from(fstat(&file)?.st_size).unwrap_or_default();
        if has != bytes || !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other(format!(
                "the memory has {has} bytes where {bytes} were said, or may shrink"
            )));
        }
        let map = MmapOptions::new().len(bytes).map_raw(&file.as_fd())?;
        Ok(Memory { map })
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Writes elements at that place; `None` where they do not fit.
    pub(crate) fn write(&self, at: usize, elements: Elements<'_>) -> Option<()> {
        let Elements::Bytes(strings) = elements else {
            return self.put(at, bytes_of(elements));
        };
        let mut end = 0u64;
        for (index, string) in strings.iter().enumerate() {
            end += string.len() as u64;
            self.put(at.checked_add(index * END_BYTES)?, &end.to_le_bytes())?;
        }
        self.put(at.checked_add(strings.len() * END_BYTES)?, strings.joined())
    }

    /// A copy of the `len` elements that take `bytes` at that place.
    ///
    /// # Errors
    /// What is wrong with what lies there, to be read behind the tensor's name.
    pub(crate) fn read(
        &self,
        element_type: ElementType,
        at: usize,
        bytes: usize,
        len: usize,
    ) -> Result<Data, String> {
        let is_inside = at.checked_add(bytes).is_some_and(|end| end <= self.len());
        if !is_inside {
            return Err(format!(
                "has {bytes} bytes from {at} on, in memory of {} bytes",
                self.len()
            ));
        }
        match element_type.bytes() {
            Some(width) if len.checked_mul(width) == Some(bytes) => {
                let data = self.copy(element_type, at, len);
                data.ok_or_else(|| "has elements of no one width".to_owned())
            }
            Some(_) => Err(format!(
                "has {bytes} bytes, which are not {len} elements of {element_type}"
            )),
            None => self.strings(at, bytes, len).map(Data::Bytes),
        }
    }

    fn strings(&self, at: usize, bytes: usize, len: usize) -> Result<Bytes, String> {
        let ends_bytes = len.checked_mul(END_BYTES).filter(|ends| *ends <= bytes);
        let ends_bytes =
            ends_bytes.ok_or_else(|| format!("has {bytes} bytes, which hold no {len} strings"))?;
        let outside = || "has strings outside of the memory".to_owned();
        let ends: Vec<u64> = self.take(at, len).ok_or_else(outside)?;
        let joined: Vec<u8> = self
            .take(at + ends_bytes, bytes - ends_bytes)
            .ok_or_else(outside)?;
        strings(&joined, ends.into_iter().map(u64::from_le))
    }

    /// Copies bytes there.
    fn put(&self, at: usize, bytes: &[u8]) -> Option<()> {
        at.checked_add(bytes.len()).filter(|end| *end <= self.len())?;
        // SAFETY: the place is inside the map, which lives as long as `self`; no reference into it exists anywhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(at), bytes.len()) };
        Some(())
    }

    /// Copies `len` values from there.
    fn take<T: Plain>(&self, at: usize, len: usize) -> Option<Vec<T>> {
        let bytes = len.checked_mul(size_of::<T>())?;
        at.checked_add(bytes).filter(|end| *end <= self.len())?;
        let mut values: Vec<T> = Vec::with_capacity(len);
        // SAFETY: the place is inside the map, and the vector has the capacity; all of it is written before its length says so, and any
        // bytes are values of `T`. Whatever the other process writes meanwhile, these are some bytes.
        unsafe {
            ptr::copy_nonoverlapping(self.map.as_ptr().add(at), values.as_mut_ptr().cast::<u8>(), bytes);
            values.set_len(len);
        }
        Some(values)
    }
}

/// A type of which any bytes are a value.
///
/// # Safety
/// It has neither padding nor bytes that are no value of it.
unsafe trait Plain: Copy {}

macro_rules! shared {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        $(plain!($kind $type);)*

        /// The elements as they lie in memory; of strings none.
        fn bytes_of(elements: Elements<'_>) -> &[u8] {
            match elements {
                $(Elements::$variant(elements) => {
                    // SAFETY: the slice is that long, and has no padding: each element is a number or a truth value.
                    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
                })*
                Elements::Bytes(_) => &[],
            }
        }

        impl Memory {
            /// A copy of `len` elements of one width.
            fn copy(&self, element_type: ElementType, at: usize, len: usize) -> Option<Data> {
                match element_type {
                    $(ElementType::$variant => Some(Data::$variant(copied!($kind, self, at, len))),)*
                    ElementType::Bytes => None,
                }
            }
        }
    };
}

macro_rules! plain {
    // A byte that is neither 0 nor 1 is no truth value.
    (truth $type:ident) => {};
    ($kind:ident $type:ident) => {
        // SAFETY: a number without padding; every pattern of its bits is a value.
        unsafe impl Plain for $type {}
    };
}

macro_rules! copied {
    (truth, $memory:ident, $at:ident, $len:ident) => {
        $memory
            .take::<u8>($at, $len)?
            .into_iter()
            .map(|byte| byte != 0)
            .collect()
    };
    ($kind:ident, $memory:ident, $at:ident, $len:ident) => {
        $memory.take($at, $len)?
    };
}

element_types!(shared);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_tensor::Tensor;

    fn both(bytes: usize) -> (Memory, Memory) {
        let (ours, file) = Memory::create(bytes).unwrap();
        let theirs = Memory::of(&file, bytes).unwrap();
        assert!(ftruncate(&file, 0).is_err() && ftruncate(&file, 1 << 20).is_err());
        assert!(Memory::of(&file, bytes + 1).is_err());
        (ours, theirs)
    }

    fn check(data: impl Into<Data>) {
        let data = data.into();
        let (ours, theirs) = both(4096);
        let elements = data.slice(0..data.len());
        let bytes = space(elements);
        ours.write(128, elements).unwrap();
        let read = theirs.read(data.element_type(), 128, bytes, data.len());
        assert_eq!(read, Ok(data.clone()));
        assert!(ours.write(4096 - bytes + 1, elements).is_none());
        assert!(ours.write(usize::MAX, elements).is_none());
        for (at, bytes, len) in [
            (4096 - bytes + 1, bytes, data.len()),
            (usize::MAX, bytes, data.len()),
            (0, bytes, usize::MAX),
            (0, usize::MAX, data.len()),
        ] {
            assert!(theirs.read(data.element_type(), at, bytes, len).is_err());
        }
    }

    #[test]
    fn elements_of_every_type_cross_over() {
        check(vec![1.5_f32, -0.0]);
        check(vec![f64::MIN, f64::MAX]);
        check(vec![f16::ONE, f16::MAX]);
        check(vec![bf16::ONE, bf16::MIN]);
        check(vec![i64::MIN, 7]);
        check(vec![i32::MAX]);
        check(vec![i16::MIN, i16::MAX]);
        check(vec![i8::MIN, i8::MAX]);
        check(vec![u64::MAX, 7]);
        check(vec![u32::MAX]);
        check(vec![u16::MAX, 0]);
        check(vec![1u8, 2, 3]);
        check(vec![true, false, true]);
        check(["a", "", "xyz"].into_iter().collect::<Bytes>());
    }

    #[test]
    fn strings_of_a_view_cross_over_alone() {
        let strings: Bytes = ["skipped", "b", "cd"].into_iter().collect();
        let tensor = Tensor::new(vec![3], strings).unwrap();
        let last = tensor.view(1..3).unwrap();
        let (ours, theirs) = both(64);
        ours.write(0, last.elements()).unwrap();
        let read = theirs.read(ElementType::Bytes, 0, space(last.elements()), 2);
        assert_eq!(read, Ok(["b", "cd"].into_iter().collect::<Bytes>().into()));
    }

    #[test]
    fn strings_that_lie_about_their_ends_are_refused() {
        let (ours, theirs) = both(64);
        for ends in [[9u64, 3], [2, 1], [u64::MAX, 3], [0, 2], [0, 4]] {
            ours.put(0, &ends[0].to_le_bytes()).unwrap();
            ours.put(8, &ends[1].to_le_bytes()).unwrap();
            assert!(theirs.read(ElementType::Bytes, 0, 19, 2).is_err(), "{ends:?}");
        }
        ours.put(0, &3u64.to_le_bytes()).unwrap();
        ours.put(8, &3u64.to_le_bytes()).unwrap();
        assert!(theirs.read(ElementType::Bytes, 0, 19, 2).is_ok());
    }

    #[test]
    fn a_truth_value_is_any_byte_but_zero() {
        let (ours, theirs) = both(64);
        ours.put(0, &[0, 1, 200]).unwrap();
        let read = theirs.read(ElementType::Bool, 0, 3, 3);
        assert_eq!(read, Ok(vec![false, true, true].into()));
    }
}
