//! Texts of a map beside what rapidocr finds in it (tests/data/make_text_boxes.py), and maps with nothing in them.
#![allow(clippy::unwrap_used)]
use super::*;

const HOW: TextBoxes = TextBoxes {
    threshold: 0.3,
    score_min: 0.5,
    unclip: 1.6,
    side_min: 3.0,
    dilate: false,
    items_max: 1000,
};

const HEIGHT: usize = 96;
const WIDTH: usize = 160;

/// The map of tests/data/make_text_boxes.py: of each text the middle, half its sides, its angle and its highest probability.
fn map() -> Tensor {
    let texts: [[f64; 6]; 4] = [
        [40.0, 16.0, 30.0, 5.0, 0.0, 1.0],
        [112.0, 40.0, 36.0, 6.0, 0.3, 0.95],
        [40.0, 66.0, 28.0, 4.0, -0.5, 0.9],
        [120.0, 82.0, 6.0, 5.0, 0.0, 0.55],
    ];
    let at = |y: usize, x: usize| {
        let of = |[middle_x, middle_y, long, high, angle, peak]: &[f64; 6]| {
            let (x, y) = (x as f64 - middle_x, y as f64 - middle_y);
            let (sin, cos) = angle.sin_cos();
            let behind = ((x * cos + y * sin).abs() - long).max((y * cos - x * sin).abs() - high);
            (0.5 - behind / 4.0).clamp(0.0, 1.0) * peak
        };
        texts.iter().map(of).fold(0.0, f64::max) as f32
    };
    let floats: Vec<f32> = (0..HEIGHT * WIDTH)
        .map(|place| at(place / WIDTH, place % WIDTH))
        .collect();
    Tensor::new(vec![1, HEIGHT, WIDTH], floats).unwrap()
}

/// Holds boxes to those of rapidocr, given from the bottom up. It cuts corners to whole pixels of the map before it grows them
/// by pyclipper, and finds the smallest rectangle around what that gives: up to 2 pixels of the map, 3 × 2 in the image.
fn check(dilate: bool, expected: &[[[f32; 2]; 4]]) {
    let found = text_boxes(&map(), [2 * HEIGHT, 3 * WIDTH], &TextBoxes { dilate, ..HOW }).unwrap();
    assert_eq!(found.shape(), [expected.len(), 4, 2]);
    let found = found.f32().unwrap().as_chunks::<2>().0;
    let expected = expected.iter().rev().flatten();
    for (found, expected) in found.iter().zip(expected) {
        let near = (found[0] - expected[0]).abs() <= 6.0 && (found[1] - expected[1]).abs() <= 4.0;
        assert!(near, "{found:?} for {expected:?}");
    }
}

#[test]
fn texts_are_found_as_by_rapidocr() {
    check(
        false,
        &[
            [[333.0, 148.0], [387.0, 148.0], [387.0, 180.0], [333.0, 180.0]],
            [[11.0, 144.0], [193.0, 78.0], [226.0, 118.0], [44.0, 184.0]],
            [[215.0, 20.0], [480.0, 76.0], [454.0, 138.0], [186.0, 82.0]],
            [[9.0, 8.0], [231.0, 8.0], [231.0, 56.0], [9.0, 56.0]],
        ],
    );
    // The faint text is scored with the pixels that it grew by, and is too faint then.
    check(
        true,
        &[
            [[8.0, 145.0], [197.0, 76.0], [232.0, 119.0], [43.0, 188.0]],
            [[215.0, 20.0], [480.0, 76.0], [457.0, 140.0], [185.0, 84.0]],
            [[9.0, 6.0], [231.0, 6.0], [231.0, 56.0], [9.0, 56.0]],
        ],
    );
}

fn boxes(shape: &[usize], floats: Vec<f32>, how: &TextBoxes) -> Vec<f32> {
    let map = Tensor::new(shape.to_vec(), floats).unwrap();
    let found = text_boxes(&map, [shape[0], shape[1]], how).unwrap();
    found.f32().unwrap().to_vec()
}

#[test]
fn few_faint_and_odd_pixels_are_no_text() {
    assert!(boxes(&[4, 4], vec![0.0; 16], &HOW).is_empty());
    assert!(boxes(&[1, 1], vec![1.0], &HOW).is_empty());
    assert!(boxes(&[8, 8], vec![0.4; 64], &HOW).is_empty());
    assert!(boxes(&[8, 8], vec![f32::NAN; 64], &HOW).is_empty());
    // One that is no number under a text: its mean is none.
    let mut floats = vec![1.0; 64];
    floats[27] = f32::NAN;
    assert!(boxes(&[8, 8], floats, &HOW).is_empty());
}

#[test]
fn boxes_end_with_the_image_and_are_counted() {
    let whole = [0.0, 0.0, 8.0, 0.0, 8.0, 8.0, 0.0, 8.0];
    assert_eq!(boxes(&[8, 8], vec![1.0; 64], &HOW), whole);
    let none = TextBoxes { items_max: 0, ..HOW };
    assert!(boxes(&[8, 8], vec![1.0; 64], &none).is_empty());
    let one = TextBoxes { items_max: 1, ..HOW };
    let found = text_boxes(&map(), [HEIGHT, WIDTH], &one).unwrap();
    assert_eq!(found.shape(), [1, 4, 2]);
}

#[test]
fn what_is_no_map_is_refused() {
    let refused = |tensor: Tensor| text_boxes(&tensor, [8, 8], &HOW).unwrap_err();
    let flat = refused(Tensor::new(vec![4], vec![0.0_f32; 4]).unwrap());
    assert_eq!(flat, "text_boxes takes a map [height, width] of f32, not f32[4]");
    let two = refused(Tensor::new(vec![2, 2, 2], vec![0.0_f32; 8]).unwrap());
    assert_eq!(
        two,
        "text_boxes takes one map [height, width] of an image, not [2, 2, 2]"
    );
    let bytes = refused(Tensor::new(vec![2, 2], vec![0_u8; 4]).unwrap());
    assert!(bytes.contains("not u8[2, 2]"), "{bytes}");
    let empty = refused(Tensor::new(vec![0, 2], Vec::<f32>::new()).unwrap());
    assert!(empty.contains("not [0, 2]"), "{empty}");
}
