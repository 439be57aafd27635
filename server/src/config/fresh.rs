//! Tables over nodes that take upserts here: which they are, and what is allowed of them and should not stay as it is.
//!
//! It refuses nothing; `nodes` and the overlay's own section do. Its invariant: a server that is no node has none.

use super::Config;
use millpond_engines_features::{Durability, OverlaySection};

impl Config {
    /// The overlays of tables over nodes, by the tables' names.
    pub(crate) fn spread_overlays(&self) -> impl Iterator<Item = (&str, &OverlaySection)> {
        let is_node = self.nodes.as_ref().is_some_and(|nodes| nodes.name.is_some());
        let tables = self
            .features
            .iter()
            .filter(move |(_, table)| is_node && table.spread);
        tables.filter_map(|(name, table)| Some((name.as_str(), table.overlay.as_ref()?)))
    }

    /// What a start warns of: rows that only a fold takes out.
    pub(crate) fn overlay_warnings(&self) -> impl Iterator<Item = String> {
        let overlays = self.spread_overlays();
        let endless = overlays.filter(|(_, overlay)| overlay.ttl_ms.is_none());
        endless.map(|(name, overlay)| {
            let way_out = match overlay.durability {
                Durability::Memory => "give it a log that can be folded (path, durability)",
                _ => "fold them on all nodes now and then (millpond features fold)",
            };
            format!(
                "features.{name}.overlay has no ttl_ms: its rows stay until they are folded, and once they take bytes_max ({} bytes) upserts of \
                 further keys are refused (30114); {way_out}, or set features.{name}.overlay.ttl_ms",
                overlay.bytes_max
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::config::Config;

    /// The names of the tables that are over nodes and take upserts, and of those that fill.
    fn check(text: &str, spread: &[&str], endless: &[&str]) {
        let config: Config = toml::from_str(text).unwrap();
        let overlays: Vec<&str> = config.spread_overlays().map(|(name, _)| name).collect();
        assert_eq!(overlays, spread, "{text}");
        let warnings: Vec<String> = config.overlay_warnings().collect();
        assert_eq!(warnings.len(), endless.len(), "{warnings:?}");
        for (warning, name) in warnings.iter().zip(endless) {
            assert!(
                warning.contains("features fold")
                    && warning.ends_with(&format!("set features.{name}.overlay.ttl_ms")),
                "{warning}"
            );
        }
    }

    #[test]
    fn an_overlay_over_nodes_that_only_folds_empty_is_warned_of() {
        const TABLES: &str = "[features.a]\nspread = true\n[features.a.overlay]\n[features.b]\nspread = true\n[features.b.overlay]\n\
                              ttl_ms = 5\n[features.c]\nspread = true\n[features.d.overlay]\n";
        check(&format!("{TABLES}[nodes]\nname = \"x\"\n"), &["a", "b"], &["a"]);
        check(&format!("{TABLES}[nodes]\n"), &[], &[]);
        check(TABLES, &[], &[]);
    }
}
