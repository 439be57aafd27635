//! Puts a bucket map where a cluster reads it. Its invariant: a map is only ever replaced by one of a higher version, whoever
//! publishes at the same time.

use crate::gateway::Etcd;
use crate::state::{map_key, prefix};
use crate::{Error, Options};
use millpond_nodes::BucketMap;

/// Publishes a map to `options.cluster`, and says whether it was not there already. It waits for etcd, as long as
/// `options.call_timeout` for each of two calls, at one endpoint after the other: it is not for
/// a thread of a tokio runtime.
///
/// # Errors
/// The map is not newer than the one that is there, somebody else published one meanwhile, or no endpoint answered.
pub fn publish(options: &Options, map: &BucketMap) -> Result<bool, Error> {
    let checked = options.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::thread)?;
    let mut last = Error::Options {
        option: "endpoints",
        why: "there is none".to_owned(),
    };
    for endpoint in checked.endpoints {
        let etcd = Etcd {
            endpoint,
            tls: checked.tls.clone(),
            timeout: options.call_timeout,
        };
        match runtime.block_on(put(&etcd, &options.cluster, map)) {
            // Another endpoint is the same etcd.
            Err(error @ (Error::Conflict { .. } | Error::Map { .. })) => return Err(error),
            Err(error) => last = error,
            done => return done,
        }
    }
    Err(last)
}

async fn put(etcd: &Etcd, cluster: &str, map: &BucketMap) -> Result<bool, Error> {
    let refused = |error| Error::Map {
        cluster: cluster.to_owned(),
        error,
    };
    let key = map_key(cluster);
    let listing = etcd.list(&prefix(cluster), false).await?;
    let found = listing.pairs.iter().find(|pair| pair.key.0 == key.as_bytes());
    // A value that is no map is what publishing repairs.
    let current = found.and_then(|pair| BucketMap::from_json(&pair.value.0).ok());
    if let Some(current) = current
        && !map.follows(&current).map_err(refused)?
    {
        return Ok(false);
    }
    let json = map.to_json().map_err(refused)?;
    let revision = found.map_or(0, |pair| pair.mod_revision.0);
    match etcd.replace(&key, json.as_bytes(), revision).await? {
        true => Ok(true),
        false => Err(Error::Conflict {
            cluster: cluster.to_owned(),
        }),
    }
}
