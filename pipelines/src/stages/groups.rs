//! What a detector gives, image by image: its boxes, scores or classes.
//!
//! Its invariant: there are as many groups as images, or an error says how many there are.

use super::by_item::items;
use crate::{Items, Value};
use millpond_tensor::Tensor;

/// A tensor for each of `images` images: the items where each is of one image (`[images, boxes, 4]`, or a tensor an item), the rows
/// where a row is of one image, and all of it where there is one image.
pub(super) fn groups(value: &Value, images: usize) -> Result<Vec<Tensor>, String> {
    let found = match &value.items {
        Items::Tensor(tensor) => match &value.offsets {
            Some(offsets) => of_rows(tensor, offsets),
            None if images == 1 && tensor.shape().first() != Some(&1) => vec![tensor.clone()],
            None => items(value).map_err(|error| error.to_string())?,
        },
        _ => items(value).map_err(|error| error.to_string())?,
    };
    match found.len() == images {
        true => Ok(found),
        false => Err(format!(
            "boxes of {} images are given for {images} images",
            found.len()
        )),
    }
}

fn of_rows(tensor: &Tensor, offsets: &[u32]) -> Vec<Tensor> {
    let ends = offsets.iter().zip(offsets.iter().skip(1));
    ends.filter_map(|(from, to)| tensor.view(*from as usize..*to as usize))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(shape: &[usize], offsets: Option<&[u32]>, images: usize, expected: &[&[usize]]) {
        let tensor = Tensor::new(shape.to_vec(), vec![0.0_f32; shape.iter().product()]).unwrap();
        let value = Value {
            items: Items::Tensor(tensor),
            offsets: offsets.map(Into::into),
        };
        let found = groups(&value, images).unwrap();
        let shapes: Vec<&[usize]> = found.iter().map(Tensor::shape).collect();
        assert_eq!(shapes, expected);
    }

    #[test]
    fn boxes_go_to_their_images() {
        check(&[2, 5, 4], None, 2, &[&[5, 4], &[5, 4]]);
        check(&[1, 5, 4], None, 1, &[&[5, 4]]);
        check(&[5, 4], None, 1, &[&[5, 4]]);
        check(&[1, 4], None, 1, &[&[4]]);
        check(&[3, 4], None, 3, &[&[4], &[4], &[4]]);
        check(&[3, 4], Some(&[0, 1, 1, 3]), 3, &[&[1, 4], &[0, 4], &[2, 4]]);
        check(&[0, 4], None, 1, &[&[0, 4]]);
        let pair = Items::Tensors(vec![Tensor::new(vec![0, 4], Vec::<f32>::new()).unwrap(); 2]);
        let wrong = groups(&Value::rows(pair), 3).unwrap_err();
        assert_eq!(wrong, "boxes of 2 images are given for 3 images");
    }
}
