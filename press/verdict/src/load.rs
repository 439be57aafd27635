//! Loads in words, by which points of the same load are found.
//!
//! Its invariant: the same load has the same words everywhere.

use crate::{LoadKind, Offered, Point};

/// The load of a point, without its grid: `64×1`, or `12000.0/s poisson on 64×1`.
pub fn load_in_words(offered: &Offered) -> String {
    let mut text = match (offered.kind, offered.rate) {
        (LoadKind::Open, asked) => {
            let asked = asked.map_or_else(|| "recorded rate".into(), |asked| format!("{}/s", trimmed(asked)));
            let arrivals = offered
                .arrivals
                .as_ref()
                .map(|words| format!(" {words}"))
                .unwrap_or_default();
            format!("{asked}{arrivals} on {}", connections(offered))
        }
        (LoadKind::Closed, _) => connections(offered),
    };
    if let Some(pause) = offered.think_ms.filter(|&pause| pause > 0.0) {
        text += &format!(", think {} ms", trimmed(pause));
    }
    if let Some(antagonists) = &offered.antagonists {
        text += &format!(", beside antagonists: {}", antagonists.interference.in_words());
    }
    text
}

fn connections(offered: &Offered) -> String {
    format!("{}×{}", offered.connections, offered.in_flight)
}

/// Two places behind the point at most; very large numbers with an exponent.
fn trimmed(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".into();
    }
    if value.abs() >= 1e12 {
        return format!("{value:.2e}");
    }
    format!("{value:.2}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .into()
}

/// The load and the grid of a point, as [`crate::Comparison::load`] names them: `64×1`, `64×1, log_level=2`.
pub fn point_in_words(point: &Point) -> String {
    let mut text = load_in_words(&point.offered);
    for (key, value) in &point.grid {
        text += &format!(", {key}={value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_in_words() {
        let mut point = Point::default();
        point.offered.connections = 64;
        point.offered.in_flight = 2;
        assert_eq!(point_in_words(&point), "64×2");
        point.offered.think_ms = Some(2.5);
        point.grid.insert("level".into(), "3".into());
        assert_eq!(point_in_words(&point), "64×2, think 2.5 ms, level=3");
        point.offered.think_ms = None;
        point.offered.kind = LoadKind::Open;
        point.offered.rate = Some(12_000.0);
        point.offered.arrivals = Some("poisson".into());
        assert_eq!(load_in_words(&point.offered), "12000/s poisson on 64×2");
    }
}
