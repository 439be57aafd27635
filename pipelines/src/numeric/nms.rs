//! Of boxes that lie over each other the best one (non-maximum suppression, greedy).
//!
//! Its invariant: what is kept is in order of score, no two of a class overlap by more than allowed, and the time is bounded by
//! boxes × `items_max`.

use super::topk::larger;
use millpond_tensor::Tensor;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nms {
    /// Shared area over area of both at most.
    pub overlap_max: f32,
    /// The least score.
    pub score_min: f32,
    /// Boxes kept at most.
    pub items_max: usize,
}

/// The places of the boxes kept, best first. `boxes` are `[n, 4]`: left, top, right, bottom; `scores` are n floats; of `classes`,
/// where they are given, only equal ones suppress each other. Boxes and scores that are not finite are left out.
///
/// # Errors
/// Shapes and types that do not fit.
pub fn nms(
    boxes: &Tensor,
    scores: &Tensor,
    classes: Option<&[i64]>,
    how: &Nms,
) -> Result<Vec<usize>, String> {
    let (Some(edges), [_, 4]) = (boxes.f32(), boxes.shape()) else {
        return Err(format!(
            "nms takes boxes [n, 4] of f32, not {}{:?}",
            boxes.element_type(),
            boxes.shape()
        ));
    };
    let boxes = edges.as_chunks::<4>().0;
    let scores = scores
        .f32()
        .ok_or_else(|| format!("nms takes scores of f32, not {}", scores.element_type()))?;
    let given = [Some(scores.len()), classes.map(<[i64]>::len)];
    if let Some(found) = given.into_iter().flatten().find(|found| *found != boxes.len()) {
        return Err(format!(
            "nms takes as many scores and classes as boxes: {found} for {}",
            boxes.len()
        ));
    }
    let is_there = |at: &usize| {
        let is_finite = boxes[*at].iter().all(|edge| edge.is_finite());
        is_finite && scores[*at].is_finite() && scores[*at] >= how.score_min
    };
    let mut candidates: Vec<usize> = (0..boxes.len()).filter(is_there).collect();
    candidates.sort_unstable_by(|a, b| larger(scores[*a], scores[*b]).then(a.cmp(b)));
    let class = |at: usize| classes.map_or(0, |classes| classes[at]);
    let mut kept: Vec<usize> = Vec::new();
    for at in candidates {
        if kept.len() >= how.items_max {
            break;
        }
        let hides = |other: &usize| {
            class(*other) == class(at) && overlap(&boxes[*other], &boxes[at]) > f64::from(how.overlap_max)
        };
        if !kept.iter().any(hides) {
            kept.push(at);
        }
    }
    Ok(kept)
}

/// Shared area over area of both; 0 where there is no area.
fn overlap(one: &[f32; 4], other: &[f32; 4]) -> f64 {
    let [a, b] = [one, other].map(|edges| edges.map(f64::from));
    let area = |[left, top, right, bottom]: [f64; 4]| (right - left).max(0.0) * (bottom - top).max(0.0);
    let shared = area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]);
    let both = area(a) + area(b) - shared;
    if both > 0.0 { shared / both } else { 0.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HOW: Nms = Nms {
        overlap_max: 0.5,
        score_min: 0.1,
        items_max: 10,
    };

    fn check(boxes: &[[f32; 4]], scores: &[f32], classes: Option<&[i64]>, how: Nms, expected: &[usize]) {
        let boxes = Tensor::new(vec![boxes.len(), 4], boxes.as_flattened().to_vec()).unwrap();
        let scores = Tensor::new(vec![scores.len()], scores.to_vec()).unwrap();
        assert_eq!(nms(&boxes, &scores, classes, &how).unwrap(), expected);
    }

    #[test]
    fn the_best_of_boxes_that_overlap_is_kept() {
        let boxes = [
            [0.0, 0.0, 10.0, 10.0],
            [1.0, 1.0, 10.0, 10.0],
            [20.0, 20.0, 30.0, 30.0],
            [0.0, 0.0, 10.0, 4.0],
        ];
        let scores = [0.8, 0.9, 0.5, 0.3];
        check(&boxes, &scores, None, HOW, &[1, 2, 3]);
        check(
            &boxes,
            &scores,
            None,
            Nms {
                overlap_max: 0.2,
                ..HOW
            },
            &[1, 2],
        );
        check(
            &boxes,
            &scores,
            None,
            Nms {
                overlap_max: 1.0,
                ..HOW
            },
            &[1, 0, 2, 3],
        );
        check(
            &boxes,
            &scores,
            None,
            Nms {
                score_min: 0.4,
                ..HOW
            },
            &[1, 2],
        );
        check(&boxes, &scores, None, Nms { items_max: 1, ..HOW }, &[1]);
        check(&boxes, &scores, Some(&[0, 1, 1, 1]), HOW, &[1, 0, 2, 3]);
        check(&[], &[], None, HOW, &[]);
    }

    #[test]
    fn what_is_no_number_is_left_out_and_odd_shapes_are_refused() {
        let boxes = [
            [0.0, 0.0, 1.0, f32::NAN],
            [0.0; 4],
            [0.0; 4],
            [5.0, 5.0, 1.0, 1.0],
        ];
        check(&boxes, &[0.9, f32::NAN, 0.5, 0.5], None, HOW, &[2, 3]);
        let boxes = Tensor::new(vec![1, 4], vec![0.0_f32; 4]).unwrap();
        let scores = Tensor::new(vec![2], vec![0.5_f32; 2]).unwrap();
        let refused = nms(&boxes, &scores, None, &HOW).unwrap_err();
        assert_eq!(refused, "nms takes as many scores and classes as boxes: 2 for 1");
        assert!(
            nms(&scores, &scores, None, &HOW)
                .unwrap_err()
                .contains("not f32[2]")
        );
    }
}
