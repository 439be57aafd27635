//! Servers that do something wrong, so that a load tool can be seen to notice it.
//!
//! Its invariant: it does its one fault and is right in everything else.

use super::Behaviour;
use super::per_connection::PerConnection;
use crate::connections::{Connections, Id};
use crate::kind::Fault;
use crate::random::Random;

/// What is remembered of a connection.
#[derive(Default)]
struct Memory {
    /// How many right answers it has had.
    answers: u64,
    /// The first request of a pair whose second has not come.
    first: Option<Box<[u8]>>,
}

pub(crate) struct Faulty {
    fault: Fault,
    random: Random,
    memories: PerConnection<Memory>,
}

impl Faulty {
    pub(crate) fn new(fault: Fault, random: Random) -> Faulty {
        Faulty {
            fault,
            random,
            memories: PerConnection::new(),
        }
    }

    fn request(&mut self, id: Id, request: &[u8], connections: &mut Connections) {
        let memory = self.memories.of(id);
        match self.fault {
            Fault::Hang => {}
            Fault::Reset => connections.reset(id),
            Fault::Garbage => connections.send(id, &garbage(request, &mut self.random)),
            Fault::Twice => {
                connections.send(id, request);
                connections.send(id, request);
            }
            Fault::Reorder => match memory.first.take() {
                Some(first) => {
                    connections.send(id, request);
                    connections.send(id, &first);
                }
                None => memory.first = Some(request.into()),
            },
            Fault::Short => {
                connections.send(id, &request[..request.len() / 2]);
                connections.close(id);
            }
            Fault::CloseAfter(answers_max) => {
                if memory.answers < answers_max {
                    memory.answers += 1;
                    connections.send(id, request);
                }
                if memory.answers == answers_max {
                    connections.close(id);
                }
            }
        }
    }
}

/// Random bytes, as many as the request has and other ones.
fn garbage(request: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes: Vec<u8> = request.iter().map(|_| random.bits() as u8).collect();
    if bytes == request
        && let Some(first) = bytes.first_mut()
    {
        *first = !*first;
    }
    bytes
}

impl Behaviour for Faulty {
    fn arrived(&mut self, id: Id, requests: &[u8], _at_ns: u64, connections: &mut Connections) {
        for request in requests.chunks_exact(connections.request_bytes()) {
            if !connections.is_open(id) {
                return;
            }
            self.request(id, request, connections);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_never_the_request() {
        let mut random = Random::new(1, 0);
        for byte in 0..=255_u8 {
            let request = [byte];
            for _ in 0..64 {
                let answer = garbage(&request, &mut random);
                assert!(answer.len() == 1 && answer != request);
            }
        }
    }
}
