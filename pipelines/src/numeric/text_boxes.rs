//! Quadrilaterals around the texts of a probability map, as detectors of the DB kind give it (Liao et al., Real-time Scene Text
//! Detection with Differentiable Binarization, 2020).
//!
//! Pixels above a threshold that touch are a text; the smallest rectangle around them is scored by the mean under it, and grown,
//! as such models are trained on shrunken texts. Its invariant: the time is bounded by the map's pixels and by `items_max`
//! rectangles, and what is no number is no text.

mod rectangle;

use millpond_tensor::Tensor;
use rectangle::Rectangle;

/// Pixels of a map at most.
const PIXELS_MAX: usize = 64 << 20;

/// Which texts are found, and how far they reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextBoxes {
    /// A pixel above this probability is of a text.
    pub threshold: f32,
    /// The least mean probability under a rectangle.
    pub score_min: f32,
    /// A rectangle grows on each side by its area over its perimeter, so many times.
    pub unclip: f32,
    /// The least shorter side of a rectangle before it grows, in pixels of the map.
    pub side_min: f32,
    /// Whether texts grow by a pixel to the right and down before they are told apart.
    pub dilate: bool,
    /// Texts looked at, at most: the first ones from the top.
    pub items_max: usize,
}

/// The texts of a map `[height, width]` of f32, with or without ones before: `[n, 4, 2]` of f32, corners from the top left on,
/// clockwise, in whole pixels of an image of `image` = `[height, width]`. They are in order of their highest pixels.
///
/// # Errors
/// Shapes and types that do not fit, and maps of more than 67,108,864 pixels.
pub fn text_boxes(map: &Tensor, image: [usize; 2], how: &TextBoxes) -> Result<Tensor, String> {
    let map = Map::of(map)?;
    let scale = [
        image[1] as f64 / map.width as f64,
        image[0] as f64 / map.height as f64,
    ];
    let ends = [image[1] as f64, image[0] as f64];
    let mut corners: Vec<f32> = Vec::new();
    for rows in map.texts(how) {
        let Some(text) = Rectangle::around(&rows) else {
            continue;
        };
        if text.shorter_side() < f64::from(how.side_min) {
            continue;
        }
        let score = map.mean(&text);
        if score.is_nan() || score < how.score_min {
            continue;
        }
        let grown = text.grown(f64::from(how.unclip));
        if grown.shorter_side() < f64::from(how.side_min) + 2.0 {
            continue;
        }
        for point in grown.corners() {
            let in_image = |axis: usize| (point[axis] * scale[axis]).round().clamp(0.0, ends[axis]) as f32;
            corners.extend([in_image(0), in_image(1)]);
        }
    }
    Tensor::new(vec![corners.len() / 8, 4, 2], corners).map_err(|error| error.to_string())
}

/// A probability map.
struct Map<'t> {
    height: usize,
    width: usize,
    floats: &'t [f32],
}

/// Of one row of a text its first and its last pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    y: usize,
    first: usize,
    last: usize,
}

impl<'t> Map<'t> {
    fn of(map: &'t Tensor) -> Result<Map<'t>, String> {
        let (Some(floats), [ones @ .., height, width]) = (map.f32(), map.shape()) else {
            let (is, shape) = (map.element_type(), map.shape());
            return Err(format!(
                "text_boxes takes a map [height, width] of f32, not {is}{shape:?}"
            ));
        };
        if ones.iter().any(|one| *one != 1) || floats.is_empty() {
            let shape = map.shape();
            return Err(format!(
                "text_boxes takes one map [height, width] of an image, not {shape:?}"
            ));
        }
        if floats.len() > PIXELS_MAX {
            return Err(format!(
                "a map of {width} × {height} pixels; {PIXELS_MAX} pixels are the limit"
            ));
        }
        let (height, width) = (*height, *width);
        Ok(Map {
            height,
            width,
            floats,
        })
    }

    /// The pixels that are of some text.
    fn mask(&self, how: &TextBoxes) -> Vec<bool> {
        let mut mask: Vec<bool> = self.floats.iter().map(|float| *float > how.threshold).collect();
        if how.dilate {
            // From the last pixel on, so that what is read is not yet grown.
            for at in (0..mask.len()).rev() {
                let has_left = at % self.width > 0;
                let has_above = at >= self.width;
                mask[at] |= (has_left && mask[at - 1])
                    || (has_above && mask[at - self.width])
                    || (has_left && has_above && mask[at - self.width - 1]);
            }
        }
        mask
    }

    /// The rows of each text, from the top.
    fn texts(&self, how: &TextBoxes) -> Vec<Vec<Row>> {
        let mut mask = self.mask(how);
        let mut texts = Vec::new();
        let mut reached: Vec<usize> = Vec::new();
        for at in 0..mask.len() {
            if !mask[at] {
                continue;
            }
            if texts.len() == how.items_max {
                break;
            }
            mask[at] = false;
            reached.push(at);
            let mut rows: Vec<Row> = Vec::new();
            while let Some(at) = reached.pop() {
                self.enter(at, &mut rows);
                for beside in self.around(at) {
                    // A pixel is reached once.
                    if std::mem::take(&mut mask[beside]) {
                        reached.push(beside);
                    }
                }
            }
            texts.push(rows);
        }
        texts
    }

    /// Counts a pixel to its row. The first one that is entered is in the top row.
    fn enter(&self, at: usize, rows: &mut Vec<Row>) {
        let (y, x) = (at / self.width, at % self.width);
        let top = rows.first().map_or(y, |row| row.y);
        // Rows are reached one after another: a pixel lies beside one that was entered.
        match rows.get_mut(y.saturating_sub(top)) {
            Some(row) => {
                row.first = row.first.min(x);
                row.last = row.last.max(x);
            }
            None => rows.push(Row { y, first: x, last: x }),
        }
    }

    /// The pixels beside one, also those at its corners.
    fn around(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        let (width, height) = (self.width, self.height);
        let (y, x) = (at / width, at % width);
        let rows = y.saturating_sub(1)..=(y + 1).min(height - 1);
        rows.flat_map(move |y| {
            let columns = x.saturating_sub(1)..=(x + 1).min(width - 1);
            columns.map(move |x| y * width + x)
        })
    }

    /// The mean under a rectangle, its edges included; NaN where it has no pixel of the map.
    fn mean(&self, text: &Rectangle) -> f32 {
        let (mut sum, mut count) = (0.0_f64, 0_usize);
        for (y, [first, last]) in text.rows() {
            let Ok(y) = usize::try_from(y) else { continue };
            let first = usize::try_from(first).unwrap_or(0);
            let last = usize::try_from(last.saturating_add(1))
                .unwrap_or(0)
                .min(self.width);
            if y < self.height && first < last {
                let row = &self.floats[y * self.width + first..y * self.width + last];
                sum += row.iter().copied().map(f64::from).sum::<f64>();
                count += row.len();
            }
        }
        (sum / count as f64) as f32
    }
}

#[cfg(test)]
mod tests;
