//! Points without a server, whose work the load generator or a program does itself.

use super::*;

#[test]
fn an_engine_in_process_is_its_own_bound() {
    let mut point = calm();
    point.target.address = String::new();
    point.client_cpu = Some(Cpu {
        seconds: 9.9,
        percent: 99.0,
    });
    check(&point, Judgement::Valid, Bound::ServerCpu, "990.00 us a call");
}

#[test]
fn a_programs_threads_are_callers_only_where_it_calls_a_server() {
    let mut point = calm();
    point.target.protocol = "program".into();
    thread(&mut point, Side::Client, "python3", 60.0, &[]);
    point
        .resources
        .threads
        .iter_mut()
        .for_each(|thread| thread.wait_percent = 40.0);
    check(
        &point,
        Judgement::GeneratorBound,
        Bound::ClientCpu,
        "waited for a core 40 %",
    );
    point.target.address = String::new();
    check(
        &point,
        Judgement::Valid,
        Bound::ServerCpu,
        "does the work itself, 50 %",
    );
    assert!(judge(&point).evidence[1].contains("busiest thread 60 %"));
}
