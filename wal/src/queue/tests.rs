//! The queue alone: groups, bounds, and when it stands.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

/// Takes so many bytes.
struct Sized(usize);

impl Work for Sized {
    type Outcome = ();
    type Error = QueueError;

    fn bytes(&self) -> usize {
        self.0
    }
}

type Queue = super::Queue<Sized>;

/// The refusal of a put of that size, if it is refused.
fn refusal(queue: &Queue, bytes: usize) -> Option<String> {
    match queue.push(Sized(bytes), Box::new(|_| ())) {
        Ok(()) => None,
        Err(Refused::Full(_, _, error)) => Some(error.to_string()),
        Err(Refused::Ended(..)) => panic!("it has not ended"),
    }
}

fn push(queue: &Queue, bytes: usize) -> bool {
    refusal(queue, bytes).is_none()
}

/// Pushes puts of these sizes, then takes groups of up to `bytes_max`.
fn check(sizes: &[usize], bytes_max: usize, expected: &[&[usize]]) {
    let queue = Queue::new(100, 2000);
    assert!(sizes.iter().all(|&size| push(&queue, size)));
    queue.close();
    let groups = std::iter::from_fn(|| queue.take(bytes_max));
    let found: Vec<Vec<usize>> = groups
        .map(|group| group.iter().map(|pending| pending.bytes).collect())
        .collect();
    assert_eq!(found, expected);
    assert_eq!(queue.lock().bytes, 0);
}

#[test]
fn groups_keep_order_and_bounds() {
    check(&[], 100, &[]);
    check(&[10, 20, 30], 100, &[&[10, 20, 30]]);
    check(&[10, 20, 30], 30, &[&[10, 20], &[30]]);
    check(&[10, 20, 30], 29, &[&[10], &[20], &[30]]);
    check(&[500, 10, 500], 100, &[&[500], &[10], &[500]]);
    check(&[10, 10], 0, &[&[10], &[10]]);
}

#[test]
fn bytes_are_bounded_as_puts_are_and_the_refusal_says_which() {
    let queue = Queue::new(4, 1000);
    assert!(push(&queue, 1001), "an empty queue takes any one put");
    let told = refusal(&queue, 8).unwrap();
    assert!(
        told.contains("hold 1001 bytes already, this one has 8, and 1000 are allowed"),
        "{told}"
    );
    assert!(told.contains("queue_bytes_max"), "{told}");
    assert_eq!(queue.take(usize::MAX).unwrap().len(), 1);
    assert!([300, 300, 300].map(|bytes| push(&queue, bytes)) == [true; 3]);
    assert!(!push(&queue, 101) && push(&queue, 100));
    let told = refusal(&queue, 8).unwrap();
    assert!(told.contains("4 writes wait for the log already"), "{told}");
    assert!(told.contains("raise queue_max"), "{told}");
}

#[test]
fn what_its_keeper_has_to_do_finds_room_until_it_is_closed() {
    let queue = Queue::new(2, 1000);
    assert!(push(&queue, 600) && push(&queue, 400) && !push(&queue, 1));
    assert!(queue.push_beyond(Sized(500), Box::new(|_| ())).is_ok());
    assert!(!push(&queue, 1));
    assert_eq!(queue.take(usize::MAX).map(|group| group.len()), Some(3));
    assert_eq!(queue.lock().bytes, 0);
    queue.close();
    let refused = queue.push_beyond(Sized(1), Box::new(|_| ()));
    assert!(matches!(refused, Err(Refused::Ended(..))));
}

/// Groups of 100 bytes; puts of 50 keep coming while there is room for them, `per_group` for each group taken, and then
/// none. The most bytes that waited behind a group late in the load, and how many groups it took in all.
fn longest_queue(per_group: usize) -> (usize, usize) {
    let queue = Queue::new(1000, 2000);
    let (mut longest, mut groups) = (0, 0);
    for turn in 0..200 {
        for _ in 0..per_group {
            push(&queue, 50);
        }
        groups += usize::from(queue.take(100).is_some());
        if turn >= 100 {
            longest = longest.max(queue.lock().bytes);
        }
    }
    (longest, groups)
}

#[test]
fn a_queue_that_stands_is_cut_to_a_few_groups() {
    assert_eq!(longest_queue(2), (0, 200));
    // More than the log takes: of the 2,000 bytes that may wait, three groups are left, and the log is as busy.
    assert_eq!(longest_queue(20), (200, 200));
}

#[test]
fn a_refusal_of_a_queue_that_stands_says_so() {
    let queue = Queue::new(1000, 2000);
    for _ in 0..40 {
        while push(&queue, 50) {}
        queue.take(100);
    }
    let told = refusal(&queue, 150).unwrap();
    assert!(
        told.contains("this one has 150, and 300 are allowed until it has drained"),
        "{told}"
    );
}

#[test]
fn a_burst_of_puts_passes_and_so_does_one_after_a_queue_that_stood() {
    let queue = Queue::new(1000, 2000);
    let burst = || (0..40).filter(|_| push(&queue, 50)).count();
    let drain = || {
        while queue.lock().bytes > 0 {
            queue.take(100);
        }
    };
    for _ in 0..3 {
        assert_eq!(burst(), 40);
        drain();
    }
    for _ in 0..40 {
        burst();
        queue.take(100);
    }
    assert_eq!(queue.lock().standing.bytes_max(), Some(300));
    assert!(burst() < 5);
    drain();
    assert_eq!(burst(), 40);
}

#[test]
fn a_long_queue_that_refuses_hardly_any_put_does_not_stand() {
    let queue = Queue::new(1000, 2000);
    (0..40).for_each(|_| assert!(push(&queue, 50)));
    for turn in 0..200 {
        queue.take(100);
        assert!(push(&queue, 50) && push(&queue, 50), "{turn}");
        assert!(turn % 20 > 0 || !push(&queue, 50), "one too many now and then");
    }
    assert_eq!(queue.lock().standing.bytes_max(), None);
}

/// Thirty callers that put again as soon as they are answered, or refused: others that fill the queue cost them an episode.
#[test]
fn a_crowd_that_comes_back_at_once_is_refused_for_an_episode_at_most() {
    let queue = Queue::new(1000, 2000);
    let mut ready = 30;
    let mut refused = vec![0; 20];
    for turn in 0..2000 {
        let again = (0..ready).filter(|_| !push(&queue, 50)).count();
        refused[turn / 100] += again;
        if (200..230).contains(&turn) {
            (0..40).filter(|_| push(&queue, 51)).count();
        }
        let group = queue.take(100).unwrap();
        ready = again + group.iter().filter(|pending| pending.bytes == 50).count();
    }
    assert!(refused[2] > 0, "{refused:?}");
    assert!(refused[5..].iter().all(|refused| *refused == 0), "{refused:?}");
}

/// Episodes under a load that never ends: how many groups each took.
#[test]
fn episodes_become_longer_while_the_load_stays() {
    let queue = Queue::new(1000, 2000);
    let stands = (0..20_000).map(|_| {
        while push(&queue, 50) {}
        queue.take(100);
        queue.lock().standing.bytes_max().is_some()
    });
    let stands: Vec<bool> = stands.collect();
    let episodes = stands.chunk_by(|a, b| a == b).filter(|episode| episode[0]);
    let lengths: Vec<usize> = episodes.map(<[bool]>::len).take(3).collect();
    assert_eq!(lengths, [256, 2048, 16_384]);
}

#[test]
fn a_reply_that_is_dropped_answers() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    drop(Reply::<Sized> {
        done: Some(Box::new(move |result| sender.send(result).unwrap())),
        panics: Arc::default(),
    });
    assert!(matches!(
        receiver.recv().unwrap(),
        Err(QueueError::OutcomeUnknown(_))
    ));
}

#[test]
fn a_nudge_brings_whoever_takes_back_without_a_write() {
    let queue = Queue::new(10, 1000);
    queue.nudge();
    let next = || crate::next_group(&queue, None, 100, None).map(|group| group.len());
    assert_eq!(next(), Some(0));
    assert!(push(&queue, 10));
    queue.nudge();
    assert_eq!(next(), Some(1));
    // Once is once.
    queue.close();
    assert_eq!(next(), None);
}

#[test]
fn what_would_come_too_late_is_not_taken_in() {
    let (queue, start) = (Queue::new(100, 100_000), Instant::now());
    let push_by = |ms: Option<u64>| {
        let deadline = ms.map(|ms| Deadline {
            now: start,
            at: start + Duration::from_millis(ms),
        });
        match queue.push_by(Sized(100), Box::new(|_| ()), (deadline, Notice::Now)) {
            Ok(()) => None,
            Err(Refused::Full(_, _, error) | Refused::Ended(_, error)) => Some(error.to_string()),
        }
    };
    assert_eq!(push_by(Some(0)), None, "nothing was measured");
    assert_eq!(push_by(Some(0)), None);
    drop(queue.take(1000));
    // As if that group had taken 10 ms.
    let took = |state: &mut State<Sized>| {
        state.waits.begin(start, 100, 1000);
        state.waits.end(start + Duration::from_millis(10));
    };
    took(&mut queue.lock());
    assert_eq!(push_by(Some(0)), None, "the log is idle");
    let told = push_by(Some(9)).unwrap();
    assert!(
        told.contains("the predicted wait for the log is 10000 us, the deadline is in 9000 us"),
        "{told}"
    );
    assert_eq!((push_by(Some(10)), push_by(None)), (None, None));
    assert_eq!(queue.lock().waiting.len(), 3);
    // Nine groups of 1,000 bytes later it would be ten.
    (0..90).for_each(|_| drop(push_by(None)));
    assert!(push_by(Some(95)).is_some());
    assert_eq!(push_by(Some(100)), None);
}

#[test]
fn writes_with_deadlines_that_none_could_keep_make_no_queue_stand() {
    let (queue, start) = (Queue::new(1000, 2000), Instant::now());
    let deadline = Deadline {
        now: start,
        at: start,
    };
    let mut late = 0;
    for _ in 0..40 {
        while queue.lock().bytes < 1000 {
            assert!(push(&queue, 50));
        }
        queue.take(100);
        // As if that group had taken 10 ms.
        let mut state = queue.lock();
        state.waits.begin(start, 100, 100);
        state.waits.end(start + Duration::from_millis(10));
        drop(state);
        for _ in 0..10 {
            let refused = queue.push_by(Sized(50), Box::new(|_| ()), (Some(deadline), Notice::Now));
            late += usize::from(matches!(
                refused,
                Err(Refused::Full(.., QueueError::TooLate { .. }))
            ));
        }
    }
    assert_eq!(late, 400);
    // Where it stood it would take 300 bytes.
    assert_eq!(refusal(&queue, 50), None);
}

#[test]
fn whoever_takes_learns_of_what_came_quietly_when_it_is_woken_or_with_what_did_not() {
    let queue = Arc::new(Queue::new(100, 2000));
    let push = |notice| {
        let pushed = queue.push_by(Sized(1), Box::new(|_| ()), (None, notice));
        assert!(pushed.is_ok());
    };
    let taken = |push_last: &dyn Fn()| {
        let takes = Arc::clone(&queue);
        let taker = std::thread::spawn(move || takes.take(100).map(|group| group.len()));
        while !queue.lock().is_awaited {
            std::thread::yield_now();
        }
        (0..3).for_each(|_| push(Notice::Later));
        assert!(
            queue.lock().is_awaited && !taker.is_finished(),
            "nobody has woken it"
        );
        push_last();
        assert!(!queue.lock().is_awaited, "it is not to be woken twice");
        taker.join().unwrap()
    };
    assert_eq!(taken(&|| queue.wake()), Some(3));
    assert_eq!(taken(&|| push(Notice::Now)), Some(4));
    // What came while it did something else, it finds by itself.
    push(Notice::Later);
    assert_eq!(queue.take(100).map(|group| group.len()), Some(1));
    queue.wake();
    assert!(queue.lock().is_idle_now(), "a wake without a write is none");
}

#[test]
fn a_nudge_or_the_end_is_waited_for_without_the_writes_that_come() {
    let long = Duration::from_secs(60);
    let queue = Queue::new(10, 1000);
    assert!(push(&queue, 10));
    assert!(
        !queue.wait_for_nudge(Duration::from_millis(1)),
        "it has not ended"
    );
    queue.nudge();
    assert!(!queue.wait_for_nudge(long));
    queue.close();
    assert!(queue.wait_for_nudge(long));
    assert_eq!(queue.take(1000).map(|group| group.len()), Some(1));
    assert!(queue.take(1000).is_none());
}
