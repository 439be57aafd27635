//! What is set over each scenario so that its run is short. Nothing is run here. Its invariant: every shipped scenario finds a line.

/// What makes a scenario short, by its file; the last is for all others.
pub const SHORT: &[(&str, &str)] = &[
    ("echo-floor.toml", "load.duration_s=0.2 load.warmup_s_max=0.1"),
    (
        "movielens-rank.toml",
        "load.duration_s=0.3 load.warmup_s_max=0.1 load.connections=[4]",
    ),
    (
        "r1-quick.toml",
        "load.duration_s=0.3 load.warmup_s_max=0.1 load.connections=[4] requests.distinct_min=20",
    ),
    (
        "r1-recommand.toml",
        "load.requests_per_connection=10 load.connections=[1,4] requests.distinct_min=20",
    ),
    (
        "r1-recommand-report.toml",
        "load.requests_per_connection=10 load.connections=[1,4] requests.distinct_min=20 grid.log_level=[2,5]",
    ),
    (
        // Without a GPU: on the processor.
        "r1-gpu.toml",
        "load.requests_per_connection=10 load.connections=[1,4] requests.distinct_min=20 grid.provider=[\"cpu\"] grid.log_level=[5] \
         grid.batch_max=[15,60]",
    ),
    (
        // On a busy machine one answer may take half a second.
        "r4-resnet-gpu.toml",
        "load.duration_s=1 load.warmup_s_max=0.1 load.connections=[2]",
    ),
    (
        "r4-decode.toml",
        "load.duration_s=0.2 load.warmup_s_max=0.1 load.connections=[2] load.client_threads=2 check.share=1.0",
    ),
    (
        "r4-resnet.toml",
        "load.duration_s=1 load.warmup_s_max=0.1 load.connections=[2] load.client_threads=2",
    ),
    (
        "r3-massive.toml",
        "load.duration_s=0.5 load.warmup_s_max=0.1 load.connections=[60] load.rate_per_connection=[4] load.processes=2 \
         boost.step_s=30 boost.fine_step_ms=100 boost.pause_ms_min=100",
    ),
    (
        "r3-stress.toml",
        "load.duration_s=0.3 load.warmup_s_max=0.1 load.connections=[20] load.rate=[500] grid.threads=[1]",
    ),
    (
        "peer-redis.toml",
        "keys.count=2000 requests.count=100 load.duration_s=0.2 load.warmup_s_max=0.1 scenario.repeats=1",
    ),
    (
        "peer-memcached.toml",
        "keys.count=2000 requests.count=100 load.duration_s=0.2 load.warmup_s_max=0.1 scenario.repeats=1",
    ),
    (
        "r2-single.toml",
        "keys.count=2000 requests.count=100 load.rate=[500,2000] load.duration_s=0.4 scenario.repeats=1 \
         load.client_threads=1 load.client_cpus=[] check.share=1.0",
    ),
    (
        "r2-batch.toml",
        "keys.count=2000 requests.count=100 load.rate=[200,500] load.duration_s=0.4 scenario.repeats=1 \
         load.client_threads=1 load.client_cpus=[] check.share=1.0",
    ),
    (
        "r2-nodes.toml",
        "keys.count=2000 requests.count=50 load.duration_s=0.4 load.warmup_s_max=0.1 scenario.repeats=1 load.client_cpus=[] \
         targets.0.server.prepare=[[\"python3\",\"press/scenarios/r2_nodes.py\",\"prepare\",\"{millpond}\",\".demo/peer/nodes\",\"10\",\"2000\"]]",
    ),
    (
        // Antagonists have a core each, of which there may be one alone.
        "r5-*.toml",
        "keys.count=500 requests.count=20 load.rate=[40] targets.2.load.rates=[40] load.requests_times_rate=0.3 load.warmup_s_max=0.1 \
         scenario.repeats=1 targets.0.antagonists.cpus=[0] targets.1.antagonists.cpus=[0]",
    ),
    (
        "r2-builds.toml",
        "keys.count=2000 requests.count=100 load.duration_s=0.3 load.warmup_s_max=0.1 scenario.repeats=1 check.share=1.0",
    ),
    (
        "r4-local.toml",
        "load.duration_s=0.2 load.warmup_s_max=0.1 load.connections=[2] scenario.repeats=1",
    ),
    (
        "r4-batch.toml",
        "load.duration_s=0.2 load.warmup_s_max=0.1 load.connections=[2] scenario.repeats=1",
    ),
    (
        // One call at a time, of milliseconds alone; here all scenarios share the cores.
        "r4-gil.toml",
        "load.duration_s=1.5 load.warmup_s_max=0.1 load.connections=[2] scenario.repeats=1",
    ),
    // A run of ResNet-50 takes a tenth of a second alone, and here all scenarios share the cores.
    (
        "r4-resnet*.toml",
        "load.duration_s=1.5 load.warmup_s_max=0.2 load.connections=[2] scenario.repeats=1",
    ),
    (
        "mix.toml",
        "load.duration_s=0.4 load.warmup_s_max=0.2 keys.count=2000 requests.count=2000",
    ),
    ("rows.toml", ""),
    ("", "load.duration_s=0.4 load.warmup_s_max=0.2"),
];
/// The same for searches.
pub const SHORT_SEARCH: &str =
    "search.point_s=0.2 search.rate_start=4000 search.rate_max=8000 search.resolution=0.5 search.repeats=1";
