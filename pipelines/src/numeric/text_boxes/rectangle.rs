//! Rectangles at any angle. Its invariant: the first corner is at the left, its left neighbour below it.

use super::Row;

type Point = [f64; 2];

/// A rectangle: its middle, the direction of its first side, and half of both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rectangle {
    middle: Point,
    direction: Point,
    half: [f64; 2],
}

impl Rectangle {
    /// The one of the least area around the pixels' middles. One of its sides lies along the hull (Freeman and Shapira, 1975).
    pub(super) fn around(rows: &[Row]) -> Option<Rectangle> {
        let hull = hull(rows);
        let sides = hull.iter().zip(hull.iter().cycle().skip(1));
        let along = sides.filter_map(|(from, to)| {
            let [x, y] = [to[0] - from[0], to[1] - from[1]];
            let length = x.hypot(y);
            (length > 0.0).then(|| Rectangle::along([x / length, y / length], &hull))
        });
        along.min_by(|a, b| a.area().total_cmp(&b.area()))
    }

    fn along(direction: Point, hull: &[Point]) -> Rectangle {
        let [x, y] = direction;
        let mut ends = [[f64::INFINITY, f64::NEG_INFINITY]; 2];
        for point in hull {
            let at = [point[0] * x + point[1] * y, point[1] * x - point[0] * y];
            for (ends, at) in ends.iter_mut().zip(at) {
                *ends = [ends[0].min(at), ends[1].max(at)];
            }
        }
        let [u, v] = ends.map(|[first, last]| (first + last) / 2.0);
        Rectangle {
            middle: [u * x - v * y, u * y + v * x],
            direction,
            half: ends.map(|[first, last]| (last - first) / 2.0),
        }
    }

    fn area(&self) -> f64 {
        4.0 * self.half[0] * self.half[1]
    }

    pub(super) fn shorter_side(&self) -> f64 {
        2.0 * self.half[0].min(self.half[1])
    }

    /// Moves each side out by `times` the area over the perimeter.
    pub(super) fn grown(&self, times: f64) -> Rectangle {
        let by = match self.half[0] + self.half[1] {
            0.0 => 0.0,
            half_sides => self.area() * times / (4.0 * half_sides),
        };
        Rectangle {
            half: self.half.map(|half| half + by),
            ..*self
        }
    }

    /// From the top left on, clockwise: of the two at the left the upper one is the first.
    pub(super) fn corners(&self) -> [Point; 4] {
        let Rectangle {
            middle,
            direction: [x, y],
            half: [u, v],
        } = *self;
        let corner = |u: f64, v: f64| [middle[0] + u * x - v * y, middle[1] + u * y + v * x];
        let mut corners = [corner(-u, -v), corner(u, -v), corner(u, v), corner(-u, v)];
        corners.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let [a, b, c, d] = corners;
        let upper_first = |a: Point, b: Point| if b[1] > a[1] { (a, b) } else { (b, a) };
        let ((top_left, bottom_left), (top_right, bottom_right)) = (upper_first(a, b), upper_first(c, d));
        [top_left, top_right, bottom_right, bottom_left]
    }

    /// Its rows of pixels, of each the first and the last one, where corners are in whole pixels as OpenCV cuts them off.
    pub(super) fn rows(&self) -> impl Iterator<Item = (i64, [i64; 2])> {
        let corners = self.corners();
        let least = |axis: usize| {
            let least = corners
                .iter()
                .map(|corner| corner[axis])
                .fold(f64::INFINITY, f64::min);
            least.floor().max(0.0)
        };
        let from = [least(0), least(1)];
        let whole = corners.map(|[x, y]| [(x - from[0]).trunc() + from[0], (y - from[1]).trunc() + from[1]]);
        let ys = whole.map(|[_, y]| y as i64);
        let (top, bottom) = (
            ys.iter().min().copied().unwrap_or(0),
            ys.iter().max().copied().unwrap_or(-1),
        );
        (top..=bottom).map(move |y| {
            let mut ends = [f64::INFINITY, f64::NEG_INFINITY];
            for at in 0..4 {
                let ([ax, ay], [bx, by]) = (whole[at], whole[(at + 1) % 4]);
                let height = y as f64;
                if height < ay.min(by) || height > ay.max(by) {
                    continue;
                }
                let crossed = match ay == by {
                    true => [ax.min(bx), ax.max(bx)],
                    false => [ax + (height - ay) / (by - ay) * (bx - ax); 2],
                };
                ends = [ends[0].min(crossed[0]), ends[1].max(crossed[1])];
            }
            (y, ends.map(|x| x.round() as i64))
        })
    }
}

/// The corners of the convex hull of the pixels' middles (Andrew's monotone chain).
fn hull(rows: &[Row]) -> Vec<Point> {
    let ends = rows
        .iter()
        .flat_map(|row| [(row.first, row.y), (row.last, row.y)]);
    let mut points: Vec<(usize, usize)> = ends.collect();
    points.sort_unstable();
    points.dedup();
    let points: Vec<Point> = points.iter().map(|&(x, y)| [x as f64, y as f64]).collect();
    if points.len() < 3 {
        return points;
    }
    let mut hull = chain(points.iter());
    hull.extend(chain(points.iter().rev()));
    hull
}

/// One half of a hull, without its last point.
fn chain<'p>(points: impl Iterator<Item = &'p Point>) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    for &point in points {
        while let [.., a, b] = kept.as_slice() {
            let turn = (b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0]);
            if turn > 0.0 {
                break;
            }
            kept.pop();
        }
        kept.push(point);
    }
    kept.pop();
    kept
}
