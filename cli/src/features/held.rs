//! `--map FILE --node NAME` of `millpond features build` and `fold`: the keys of one node.
//! It reads the map, and the builder knows none. Its invariant: a node that is not in the map is refused with those that are.

use anyhow::Context as _;
use clap::Args;
use millpond_client_rust::NodesClient;
use millpond_engines_features_build::{Held, NodeShare};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Share {
    /// Keep only the keys whose buckets a node holds, by this bucket map: TOML, or JSON where it is called so. A delta is for the node of
    /// its base, by the same map.
    #[arg(long, value_name = "FILE", requires = "node")]
    map: Option<PathBuf>,
    /// The name of that node in the map.
    #[arg(long, value_name = "NAME", requires = "map")]
    node: Option<String>,
}

impl Share {
    /// What of a table is kept; everything where nothing is said.
    pub(crate) fn held(self) -> anyhow::Result<Option<Held>> {
        let (Some(path), Some(name)) = (self.map, self.node) else {
            return Ok(None);
        };
        let map = NodesClient::read_map(&path)?;
        let node = map.find(&name).with_context(|| {
            let names: Vec<&str> = map.nodes().iter().map(|node| node.name.as_str()).collect();
            format!("{} has no node {name:?}; it has {names:?}", path.display())
        })?;
        let share = NodeShare {
            name,
            map_version: map.version(),
            buckets: map.buckets(),
            held: map.buckets_of(node),
        };
        Ok(Some(Held::new(share, move |key| map.holds(node, key))))
    }
}
