//! `millpond call` over nodes: a lookup whose keys this command splits by a bucket map.
//!
//! It decides nothing about nodes: the client does. Its invariant: what it prints is what one server with all rows would answer, or
//! says which keys are missing.

use crate::connect::{TlsFiles, options};
use anyhow::Context as _;
use clap::Args;
use millpond_client_rust::membership;
use millpond_client_rust::schema::features_lookup::{Answer, Call, ManyRows};
use millpond_client_rust::schema::payload::{Encoder, Encoding, Payload};
use millpond_client_rust::schema::{FeaturesLookup, Field as _, Method as _};
use millpond_client_rust::{NodesClient, NodesOptions, Token};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where the nodes are.
#[derive(Args)]
pub(super) struct Nodes {
    /// Split the keys of a features.lookup over the nodes of this bucket map, in place of asking one server.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["addr", "oneway", "etcd"])]
    map: Option<PathBuf>,
    /// The same, of the map in this etcd; of several, with commas between, one that answers.
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "cluster", conflicts_with_all = ["addr", "oneway"])]
    etcd: Vec<String>,
    /// The name of the cluster in etcd.
    #[arg(long, value_name = "NAME", requires = "etcd")]
    cluster: Option<String>,
    /// Certificates (PEM) of the authorities that the certificate of an etcd at https:// must come from.
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
}

impl Nodes {
    /// Whether nodes are to be asked.
    pub(super) fn are_named(&self) -> bool {
        self.map.is_some() || !self.etcd.is_empty()
    }

    /// The answer as JSON.
    pub(super) async fn call(
        &self,
        method: &str,
        payload: &str,
        deadline: Duration,
        tls: &TlsFiles,
    ) -> anyhow::Result<Vec<u8>> {
        let began = Instant::now();
        anyhow::ensure!(
            method == FeaturesLookup::NAME,
            "{method} is not called over nodes, {} alone is; leave --map and --etcd out, and name a server with --addr",
            FeaturesLookup::NAME
        );
        let payload = Payload::new(Encoding::Json, payload.as_bytes())?;
        let (call, reserved) = Call::decode(&payload)?;
        for (key, is_given) in [
            ("_priority", reserved.priority.is_some()),
            ("_trace", reserved.trace.is_some()),
            ("_epoch", reserved.epoch.is_some()),
        ] {
            anyhow::ensure!(!is_given, "key \"{key}\" is not sent to nodes; leave it out");
        }
        let options = NodesOptions {
            connections: options(tls),
            token: reserved.token.map(|token| Token(token.0.to_owned())),
            ..NodesOptions::default()
        };
        let client = self.client(options, deadline).await?;
        let left = || Some(deadline.saturating_sub(began.elapsed()));
        let answer = match &call {
            Call::One(lookup) => Answer::One(client.lookup(lookup, left()).await?),
            Call::Many(many) => {
                let mut lookups = Vec::with_capacity(many.lookups.len());
                for lookup in &many.lookups {
                    lookups.push(client.lookup(lookup, left()).await?);
                }
                Answer::Many(ManyRows { lookups })
            }
        };
        let mut written = Vec::new();
        Answer::write(
            &answer,
            &mut Encoder::new(&mut written, Encoding::Json, reserved.base64),
        );
        Ok(written)
    }

    async fn client(&self, options: NodesOptions, deadline: Duration) -> anyhow::Result<NodesClient> {
        if let Some(map) = &self.map {
            return Ok(NodesClient::from_file(map, options)?);
        }
        let cluster = self.cluster.clone().context("--etcd needs --cluster NAME")?;
        let tls = self
            .etcd_ca
            .clone()
            .map(|ca| membership::Tls { ca, identity: None });
        let etcd = membership::Options {
            tls,
            ..membership::Options::new(self.etcd.clone(), cluster)
        };
        Ok(NodesClient::follow(etcd, options, deadline).await?)
    }
}
