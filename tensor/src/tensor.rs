//! A shape and elements, whole or some rows of a larger tensor, or lent by memory of somebody else's. Its invariant: the elements
//! are as many as the shape's product.

use crate::{Bytes, BytesView, Data, Element, ElementType, Elements, Error};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A dense, row-major tensor. A clone and a view share its elements, which live until the last of them is dropped.
#[derive(Clone)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Arc<Storage>,
    /// Where its elements begin in `data`, and how many there are.
    start: usize,
    len: usize,
}

/// Where elements lie.
enum Storage {
    /// In memory of the tensor's own.
    Own(Data),
    /// In memory that lives until `owner` is dropped, which happens after the last tensor of it is.
    Lent {
        elements: Elements<'static>,
        _owner: Box<dyn Any + Send + Sync>,
    },
}

impl Storage {
    fn slice(&self, range: Range<usize>) -> Elements<'_> {
        match self {
            Storage::Own(data) => data.slice(range),
            Storage::Lent { elements, .. } => elements.slice(range),
        }
    }

    fn len(&self) -> usize {
        match self {
            Storage::Own(data) => data.len(),
            Storage::Lent { elements, .. } => elements.len(),
        }
    }

    fn element_type(&self) -> ElementType {
        match self {
            Storage::Own(data) => data.element_type(),
            Storage::Lent { elements, .. } => elements.element_type(),
        }
    }
}

impl Tensor {
    /// A tensor of `shape` that owns `data`.
    ///
    /// # Errors
    /// [`Error::Length`] when the shape's product is not the number of elements, [`Error::TooLarge`] when that product overflows.
    pub fn new(shape: Vec<usize>, data: impl Into<Data>) -> Result<Tensor, Error> {
        Tensor::stored(shape, Storage::Own(data.into()))
    }

    /// A tensor of `shape` whose elements lie where somebody else keeps them. They are read in place, and `owner` is dropped when
    /// the last tensor that shares them is: what lends them for no longer than that may say that it lends them for ever.
    ///
    /// # Errors
    /// As [`Tensor::new`].
    pub fn lent(
        shape: Vec<usize>,
        elements: Elements<'static>,
        owner: impl Any + Send + Sync,
    ) -> Result<Tensor, Error> {
        let _owner = Box::new(owner);
        Tensor::stored(shape, Storage::Lent { elements, _owner })
    }

    fn stored(shape: Vec<usize>, data: Storage) -> Result<Tensor, Error> {
        match product(&shape) {
            Some(len) if len == data.len() => Ok(Tensor {
                shape,
                data: Arc::new(data),
                start: 0,
                len,
            }),
            Some(expected) => Err(Error::Length {
                found: data.len(),
                shape,
                expected,
            }),
            None => Err(Error::TooLarge { shape }),
        }
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn zeros(element_type: ElementType, shape: Vec<usize>) -> Result<Tensor, Error> {
        match product(&shape) {
            Some(len) => Tensor::new(shape, Data::zeros(element_type, len)),
            None => Err(Error::TooLarge { shape }),
        }
    }

    /// The rows of `tensors` one after the other, with one copy; none where there is one tensor. `None` when there is no tensor,
    /// or types or the shapes of rows differ.
    pub fn concat<'a, T>(tensors: T) -> Option<Tensor>
    where
        T: IntoIterator<Item = &'a Tensor, IntoIter: Clone>,
    {
        let tensors = tensors.into_iter();
        let mut others = tensors.clone();
        let first = others.next()?;
        if others.clone().next().is_none() {
            return Some(first.clone());
        }
        let (mut rows, row_shape) = (first.rows(), first.shape.get(1..)?);
        for other in others {
            if other.shape.get(1..)? != row_shape {
                return None;
            }
            rows = rows.checked_add(other.rows())?;
        }
        let mut shape = first.shape.clone();
        shape[0] = rows;
        let data = Data::concat(tensors.map(Tensor::elements), product(&shape)?)?;
        Tensor::new(shape, data).ok()
    }

    /// Tensors of one shape as the rows of one, with one copy; none where there is one tensor. `None` when there is no tensor, or
    /// types or shapes differ.
    pub fn stack(tensors: &[Tensor]) -> Option<Tensor> {
        let first = tensors.first()?;
        if tensors.iter().any(|other| other.shape != first.shape) {
            return None;
        }
        let mut shape = Vec::with_capacity(first.shape.len() + 1);
        shape.push(tensors.len());
        shape.extend_from_slice(&first.shape);
        if let [only] = tensors {
            return Some(Tensor {
                shape,
                ..only.clone()
            });
        }
        let data = Data::concat(tensors.iter().map(Tensor::elements), product(&shape)?)?;
        Tensor::new(shape, data).ok()
    }

    /// The elements as byte strings, if that is what they are: without a copy where nothing else shares them.
    pub fn into_strings(self) -> Option<Bytes> {
        let is_whole = self.start == 0 && self.len == self.data.len();
        let copied = |tensor: &Tensor| {
            let mut strings = Bytes::default();
            strings.extend(tensor.strings()?);
            Some(strings)
        };
        if !is_whole || matches!(*self.data, Storage::Lent { .. }) {
            return copied(&self);
        }
        match Arc::try_unwrap(self.data) {
            Ok(Storage::Own(Data::Bytes(strings))) => Some(strings),
            Ok(_) => None,
            Err(data) => {
                let (start, len) = (self.start, self.len);
                copied(&Tensor {
                    shape: self.shape,
                    data,
                    start,
                    len,
                })
            }
        }
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements, row-major.
    pub fn elements(&self) -> Elements<'_> {
        self.data.slice(self.start..self.start + self.len)
    }

    /// The elements when they are of type `T`.
    pub fn of<T: Element>(&self) -> Option<&[T]> {
        T::of(self.elements())
    }

    /// The elements when they are f32.
    pub fn f32(&self) -> Option<&[f32]> {
        self.of()
    }

    /// The elements when they are byte strings.
    pub fn strings(&self) -> Option<BytesView<'_>> {
        match self.elements() {
            Elements::Bytes(strings) => Some(strings),
            _ => None,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Dimension 0; 1 for a scalar.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.data.element_type()
    }

    /// Bytes of the elements; of strings also what says where each ends.
    pub fn bytes(&self) -> usize {
        match self.element_type().bytes() {
            Some(width) => self.len.saturating_mul(width),
            None => self.strings().map_or(0, BytesView::bytes_held),
        }
    }

    /// These rows, without a copy; `None` when they are not all there or the tensor is a scalar.
    pub fn view(&self, rows: Range<usize>) -> Option<Tensor> {
        let of_a_row = product(self.shape.get(1..)?)?;
        if rows.start > rows.end || rows.end > self.rows() {
            return None;
        }
        let mut shape = self.shape.clone();
        shape[0] = rows.len();
        Some(Tensor {
            shape,
            data: Arc::clone(&self.data),
            start: self.start + rows.start * of_a_row,
            len: rows.len() * of_a_row,
        })
    }

    /// One row without dimension 0, without a copy; `None` when it is not there.
    pub fn item(&self, at: usize) -> Option<Tensor> {
        let mut item = self.view(at..at.checked_add(1)?)?;
        item.shape.remove(0);
        Some(item)
    }
}

/// How many elements a shape has, if that can be counted.
fn product(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim))
}

/// Equal shapes and elements, wherever they lie.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.shape == other.shape && self.elements() == other.elements()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("shape", &self.shape)
            .field("elements", &self.elements())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(shape: &[usize], len: usize, expected: Result<usize, Error>) {
        let tensor = Tensor::new(shape.to_vec(), vec![0.0_f32; len]);
        assert_eq!(tensor.map(|tensor| tensor.rows()), expected);
    }

    #[test]
    fn a_shape_must_fit_its_data() {
        check(&[3, 2], 6, Ok(3));
        check(&[3], 3, Ok(3));
        check(&[], 1, Ok(1));
        check(&[0, 5], 0, Ok(0));
        let (shape, expected) = (vec![3, 2], 6);
        check(
            &[3, 2],
            5,
            Err(Error::Length {
                shape,
                expected,
                found: 5,
            }),
        );
        let huge = vec![usize::MAX, 2];
        check(&huge, 0, Err(Error::TooLarge { shape: huge.clone() }));
        assert!(Tensor::zeros(ElementType::U8, huge).is_err());
    }

    #[test]
    fn lent_elements_are_read_in_place_and_their_owner_goes_last() {
        static ELEMENTS: [i32; 6] = [1, 2, 3, 4, 5, 6];
        let owner = Arc::new(());
        let lent = Tensor::lent(vec![3, 2], Elements::I32(&ELEMENTS), Arc::clone(&owner)).unwrap();
        assert_eq!(address(&lent), ELEMENTS.as_ptr());
        assert_eq!(lent, Tensor::new(vec![3, 2], ELEMENTS.to_vec()).unwrap());
        let view = lent.view(1..2).unwrap();
        drop(lent);
        assert_eq!(
            (view.of::<i32>(), view.element_type()),
            (Some(&[3, 4][..]), ElementType::I32)
        );
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(view);
        assert_eq!(Arc::strong_count(&owner), 1);
        assert!(Tensor::lent(vec![5], Elements::I32(&ELEMENTS), ()).is_err());
    }

    /// Where the elements lie, to tell a copy from none.
    fn address(tensor: &Tensor) -> *const i32 {
        tensor.of::<i32>().unwrap().as_ptr()
    }

    #[test]
    fn rows_are_viewed_in_place_and_joined_with_one_copy() {
        let tensor = Tensor::new(vec![3, 2], vec![1, 2, 3, 4, 5, 6]).unwrap();
        let last = tensor.view(1..3).unwrap();
        assert_eq!(last, Tensor::new(vec![2, 2], vec![3, 4, 5, 6]).unwrap());
        assert_eq!(last.item(1), Tensor::new(vec![2], vec![5, 6]).ok());
        assert_eq!((last.item(2), last.item(usize::MAX)), (None, None));
        assert_eq!(address(&last), address(&tensor).wrapping_add(2));
        let middle = last.view(0..1).unwrap();
        assert_eq!((middle.of::<i32>(), middle.bytes()), (Some(&[3, 4][..]), 8));
        for beyond in [2..4, 4..4, usize::MAX - 1..usize::MAX] {
            assert_eq!(tensor.view(beyond), None);
        }
        assert_eq!(Tensor::new(vec![], vec![1]).unwrap().view(0..1), None);
        let joined = Tensor::concat([&last, &middle]).unwrap();
        assert_eq!(
            (joined.shape(), joined.of::<i32>()),
            (&[3, 2][..], Some(&[3, 4, 5, 6, 3, 4][..]))
        );
        assert_eq!(address(&Tensor::concat([&last]).unwrap()), address(&last));
    }

    #[test]
    fn strings_are_viewed_in_place_and_joined_with_one_copy() {
        let strings: Bytes = ["a", "", "bc", "def"].into_iter().collect();
        let tensor = Tensor::new(vec![2, 2], strings).unwrap();
        let last = tensor.view(1..2).unwrap();
        let [view, whole] = [&last, &tensor].map(|tensor| tensor.strings().unwrap());
        assert_eq!(view.iter().collect::<Vec<_>>(), [&b"bc"[..], b"def"]);
        assert_eq!(view.joined().as_ptr(), whole.joined().as_ptr().wrapping_add(1));
        assert_eq!((last.bytes(), tensor.bytes()), (5 + 16, 6 + 32));
        let joined = Tensor::concat([&last, &tensor]).unwrap();
        let expected: Bytes = ["bc", "def", "a", "", "bc", "def"].into_iter().collect();
        assert_eq!(joined, Tensor::new(vec![3, 2], expected).unwrap());
        assert_ne!(joined.view(1..3), joined.view(0..2));
        assert_eq!((tensor.f32(), tensor.of::<u8>()), (None, None));
        let numbers = Tensor::new(vec![1, 2], vec![1_u8, 2]).unwrap();
        assert_eq!(Tensor::concat([&last, &numbers]), None);
        assert_eq!(Tensor::concat([&numbers, &last]), None);
        assert_eq!(format!("{:?}", last.elements()), r#"Bytes(["bc", "def"])"#);
    }

    #[test]
    fn tensors_of_one_shape_are_stacked() {
        let tensor = Tensor::new(vec![2], vec![1, 2]).unwrap();
        let one = Tensor::stack(std::slice::from_ref(&tensor)).unwrap();
        assert_eq!((one.shape(), address(&one)), (&[1, 2][..], address(&tensor)));
        let two = Tensor::stack(&[tensor.clone(), tensor.clone()]).unwrap();
        assert_eq!(
            (two.shape(), two.of::<i32>()),
            (&[2, 2][..], Some(&[1, 2, 1, 2][..]))
        );
        let other = Tensor::new(vec![1], vec![1]).unwrap();
        assert_eq!(Tensor::stack(&[tensor, other]), None);
        assert_eq!(Tensor::stack(&[]), None);
    }

    #[test]
    fn strings_are_taken_out_without_a_copy_where_nothing_shares_them() {
        let strings: Bytes = ["ab", "c"].into_iter().collect();
        let tensor = Tensor::new(vec![2], strings.clone()).unwrap();
        let address = tensor.strings().unwrap().joined().as_ptr();
        let shared = tensor.clone();
        assert_eq!(shared.into_strings(), Some(strings.clone()));
        let last = tensor.view(1..2).unwrap();
        assert_eq!(last.into_strings(), Some(["c"].into_iter().collect()));
        let taken = tensor.into_strings().unwrap();
        assert_eq!((taken.view().joined().as_ptr(), taken), (address, strings));
        assert_eq!(Tensor::new(vec![1], vec![1]).unwrap().into_strings(), None);
    }

    #[test]
    fn rows_that_differ_are_not_joined() {
        let two = |data: Data| Tensor::new(vec![1, 2], data).unwrap();
        let floats = two(vec![1.0_f32, 2.0].into());
        assert_eq!(Tensor::concat([&floats, &two(vec![1_i64, 2].into())]), None);
        let flat = Tensor::new(vec![2], vec![1.0_f32, 2.0]).unwrap();
        assert_eq!(Tensor::concat([&floats, &flat]), None);
        let scalar = Tensor::new(vec![], vec![1.0_f32]).unwrap();
        assert_eq!(Tensor::concat([&scalar, &scalar]), None);
        assert_eq!(Tensor::concat(std::iter::empty()), None);
    }
}
