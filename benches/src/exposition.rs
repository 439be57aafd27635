//! Reads a page of `/metrics`: Prometheus text, as far as this server writes it.
//!
//! Its invariant: a sample that is not on the page is an error that names it, never a zero.

use anyhow::Context as _;

/// A page as it was fetched.
pub(crate) struct Exposition(pub(crate) String);

impl Exposition {
    /// The value of a sample, named with its labels: `millpond_calls_total{method="infer"}`.
    pub(crate) fn value(&self, sample: &str) -> anyhow::Result<f64> {
        let mut found = self.0.lines().filter_map(|line| line.rsplit_once(' '));
        let (_, value) = found
            .find(|(name, _)| *name == sample)
            .with_context(|| format!("/metrics has no sample {sample}"))?;
        value
            .parse()
            .with_context(|| format!("/metrics: {sample} is {value:?}, no number"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn samples_are_found_whole() {
        let page = Exposition("# HELP a_total About a.\na_total 3\na{m=\"x\"} 1.5\na{m=\"y\"} 2e-3\n".into());
        assert_eq!(page.value("a_total").unwrap(), 3.0);
        assert_eq!(page.value("a{m=\"y\"}").unwrap(), 0.002);
        assert!(page.value("a").is_err());
    }
}
