//! Ordered stores that follow another server's: a thread each, which asks the leader for the next records and has the store take them.
//!
//! It waits for the network and for the store's log; nobody waits for it. Its invariant: a store takes what its leader answers or nothing, and
//! what keeps it from following is said once until it changes.

mod copying;

use crate::fresh::{Link, LinkError};
use crate::halt::Halt;
use crate::nodes::{Roads, look_up};
use crate::{Error, Shared};
use copying::Copying;
use millpond_engines_ordered::{FollowError, Position, Role, Shipment, Store};
use millpond_net::{OutwardTls, OutwardTlsFiles, TlsKeys};
use millpond_nodes::{Node, TLS};
use millpond_wire_frame::Limits;
use millpond_wire_schema::{Code, Method as _, OrderedFollow, ordered_follow as schema};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the leader waits where it has nothing new.
const WAIT: Duration = Duration::from_secs(5);
/// What an answer may take beyond that.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// About as many bytes are asked for at once; a follower that takes smaller frames asks for fewer.
const SHIPMENT_BYTES: u64 = 1 << 20;
/// After a failure it is asked again so much later, twice as long each time.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// The threads of all stores that follow.
#[derive(Default)]
pub(crate) struct Followings {
    halt: Arc<Halt>,
}

impl Followings {
    /// Begins, for each store that follows.
    pub(crate) fn start(shared: &Arc<Shared>, local: SocketAddr) -> Result<Followings, Error> {
        let followings = Followings::default();
        let Some(catalog) = shared.calls.state() else {
            return Ok(followings);
        };
        let limits = Limits {
            frame_bytes_max: shared.config.server.frame_bytes_max,
        };
        for (name, section) in &shared.config.ordered {
            let leader = section.follow.as_ref().zip(section.follow_token_file.as_ref());
            let Some(((leader, token_file), store)) = leader.zip(catalog.stores.get(name)) else {
                continue;
            };
            let following = Following {
                table: name.clone(),
                token_file: token_file.clone(),
                ca: section.follow_ca.clone(),
                leader: leader.clone(),
                name: own_name(local),
                store: store.clone(),
                limits,
                halt: Arc::clone(&followings.halt),
                said: None,
                copying: None,
            };
            let thread = std::thread::Builder::new().name("ordered-follow".into());
            // Nobody waits for its end: the leader may keep it waiting, and it touches nothing then.
            let started = thread.spawn(move || following.run());
            started.map_err(|source| millpond_net::Error::Thread {
                what: "the thread that follows an ordered store's leader".into(),
                source,
            })?;
        }
        Ok(followings)
    }

    /// Ends them; one that waits for its leader ends behind that, and touches nothing.
    pub(crate) fn stop(&self) {
        self.halt.stop();
    }
}

/// What the leader knows it by.
fn own_name(local: SocketAddr) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), local.port())
}

/// One store and its leader.
struct Following {
    table: String,
    token_file: PathBuf,
    /// Who signs the leader's certificate, where it is called by TLS.
    ca: Option<PathBuf>,
    leader: String,
    name: String,
    store: Store,
    limits: Limits,
    halt: Arc<Halt>,
    /// What was said last of what keeps it from following.
    said: Option<String>,
    /// A copy of the leader's store that is being taken.
    copying: Option<Copying>,
}

/// A connection to the leader, who that is, and the token that is shown there.
type Asked = (Link, Node, String);

/// What became of a promotion's word to the old leader.
enum Told {
    /// It does not lead any more.
    Heard,
    /// It answers otherwise, and would again.
    Refused(String),
    /// It did not answer.
    Lost(String),
}

impl Following {
    fn run(mut self) {
        let mut link = None;
        let mut pause = AGAIN;
        while matches!(self.store.role(), Role::Follows { .. }) && !self.halt.is_stopped() {
            match self.once(&mut link) {
                Ok(()) => {
                    pause = AGAIN;
                    if self.said.take().is_some() {
                        tracing::info!(
                            store = self.table,
                            leader = self.leader,
                            "follows its leader again"
                        );
                    }
                }
                Err(problem) => {
                    // Names are looked up and the token is read again.
                    link = None;
                    self.store.lost_leader();
                    self.complain(problem);
                    if self.halt.within(pause) {
                        return;
                    }
                    pause = (pause * 2).min(AGAIN_MAX);
                }
            }
        }
        self.tell_of_promotion(link);
    }

    /// Where the store was promoted, tells the leader that it followed, until that has heard or the server stops: it refuses writes from then
    /// on, and where it had one follower alone nobody else would tell it.
    fn tell_of_promotion(&mut self, mut link: Option<Asked>) {
        // A copy that was not whole is given up.
        (self.copying, self.said) = (None, None);
        let Ok(position) = self.store.position() else {
            return;
        };
        let mut pause = AGAIN;
        while self.store.role() == Role::Leads && !self.halt.is_stopped() {
            let problem = match self.tell(&mut link, &position) {
                Told::Heard => {
                    return tracing::info!(
                        store = self.table,
                        old = self.leader,
                        "the old leader of an ordered store was told of the promotion: it takes no writes any more"
                    );
                }
                Told::Refused(answer) => {
                    return tracing::warn!(
                        store = self.table,
                        old = self.leader,
                        answer,
                        "the server that this ordered store followed takes no word of the promotion: see to it that one server alone leads the store"
                    );
                }
                Told::Lost(problem) => problem,
            };
            link = None;
            if self.said.as_ref() != Some(&problem) {
                tracing::warn!(
                    store = self.table,
                    old = self.leader,
                    problem,
                    "the old leader of an ordered store could not be told of the promotion: stop it, where it runs; it is told once it answers"
                );
                self.said = Some(problem);
            }
            if self.halt.within(pause) {
                return;
            }
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    /// A question in the new epoch, which the old leader refuses; how much of its log this store has is no matter.
    fn tell(&self, link: &mut Option<Asked>, position: &Position) -> Told {
        let asked = match link {
            Some(link) => link,
            None => match self.connect() {
                Ok(asked) => link.insert(asked),
                Err(problem) => return Told::Lost(problem),
            },
        };
        match self.ask(asked, position, Duration::ZERO) {
            Ok(answer) => Told::Refused(format!("it leads in epoch {}", answer.epoch)),
            Err(LinkError::Refused(status)) => match status.code {
                Code::NotLeader => Told::Heard,
                Code::Overloaded | Code::Stopping => Told::Lost(LinkError::Refused(status).to_string()),
                _ => Told::Refused(LinkError::Refused(status).to_string()),
            },
            Err(error) => Told::Lost(error.to_string()),
        }
    }

    /// One question, and its answer into the store.
    fn once(&mut self, link: &mut Option<Asked>) -> Result<(), String> {
        let position = self.store.position().map_err(|error| error.to_string())?;
        let asked_of = match link {
            Some(link) => link,
            None => link.insert(self.connect()?),
        };
        if self.copying.is_some() {
            return self.copy(asked_of);
        }
        let asked = Instant::now();
        let answer = match self.ask(asked_of, &position, WAIT) {
            Ok(answer) => answer,
            Err(LinkError::Refused(status)) if status.code == Code::LogGone => return self.copy(asked_of),
            Err(error) => return Err(error.to_string()),
        };
        if self.halt.is_stopped() {
            return Ok(());
        }
        // Another follower of the same name answers this one's questions, or its leader does not wait: not as fast as the network is.
        if answer.records.is_empty() && asked.elapsed() < WAIT / 2 && self.halt.within(AGAIN) {
            return Ok(());
        }
        let taken = self.store.follow(shipment(answer)?);
        match taken {
            Ok(_) => Ok(()),
            // It was promoted meanwhile.
            Err(FollowError::NotFollowing(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Asks for the records behind a position; the leader may wait so long for the first.
    fn ask(
        &self,
        (link, node, token): &mut Asked,
        position: &Position,
        wait: Duration,
    ) -> Result<schema::Answer<'static>, LinkError> {
        let call = schema::Call {
            table: Some(self.table.as_str().into()),
            follower: self.name.as_str().into(),
            history: position.history.as_slice().into(),
            epoch: position.epoch,
            position: position.sequence,
            record_epoch: position.mark.map(|mark| mark.epoch),
            record_crc32c: position.mark.map(|mark| u64::from(mark.crc32c)),
            partial: position.partial,
            bytes_max: Some(self.bytes_max(SHIPMENT_BYTES)),
            wait_ms: wait.as_millis() as u64,
        };
        let method = (OrderedFollow::NAME, Some(token.as_str()));
        link.call::<schema::Call<'_>, schema::Answer<'static>>(node, method, &call, wait + ANSWER_MAX)
    }

    /// So many bytes are asked for at once, as far as a frame holds them.
    fn bytes_max(&self, most: u64) -> u64 {
        (self.limits.frame_bytes_max as u64)
            .saturating_sub(1024)
            .clamp(1, most)
    }

    fn connect(&self) -> Result<Asked, String> {
        let token = read_token(&self.token_file)?;
        let roads = Roads {
            // Its files are read again with each attempt.
            tls: read_tls(&self.leader, self.ca.as_deref())?.map(Arc::new),
            ..Roads::default()
        };
        let place = self.leader.strip_prefix(TLS).unwrap_or(&self.leader);
        if !place.starts_with("unix:") && place.parse::<SocketAddr>().is_err() {
            let mut lost = None;
            let names = look_up([place].into_iter(), |_, error| lost = Some(error));
            if let Some(error) = lost {
                return Err(format!("its name cannot be looked up: {error}"));
            }
            roads.names.store(Arc::new(names));
        }
        let node = Node {
            name: self.leader.clone(),
            addresses: vec![self.leader.clone()],
        };
        Ok((Link::new(self.limits, roads), node, token))
    }

    fn complain(&mut self, problem: String) {
        if self.said.as_ref() != Some(&problem) {
            tracing::warn!(
                store = self.table,
                leader = self.leader,
                problem,
                "this ordered store does not follow its leader now; it is tried again"
            );
            self.said = Some(problem);
        }
    }
}

fn shipment(answer: schema::Answer<'static>) -> Result<Shipment, String> {
    let history = <[u8; 16]>::try_from(&*answer.history);
    Ok(Shipment {
        history: history.map_err(|_| "it answered a history that is none".to_owned())?,
        epoch: answer.epoch,
        first: answer.first,
        last: answer.last,
        bytes: answer.records.into_owned(),
        skipped: answer.skipped.unwrap_or_default(),
        rest: answer.rest.unwrap_or_default(),
        now_ms: answer.now_ms.unwrap_or_default(),
    })
}

/// What a leader is called by TLS with, if its address says so.
pub(crate) fn read_tls(leader: &str, ca: Option<&Path>) -> Result<Option<OutwardTls>, String> {
    if !leader.starts_with(TLS) {
        return Ok(None);
    }
    let files = OutwardTlsFiles {
        keys: TlsKeys {
            authorities: "follow_ca",
            certificate: "",
            private_key: "",
            server_name: "",
        },
        authorities: ca.map(Path::to_owned),
        identity: None,
        server_name: None,
    };
    OutwardTls::read(files)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// The token in a file of its own.
pub(crate) fn read_token(file: &Path) -> Result<String, String> {
    let at = file.display();
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| {
        format!(
            "follow_token_file: {at} cannot be read: {error}; name a file that holds the leader's token alone"
        )
    })?;
    let token = text.trim();
    if token.is_empty() {
        return Err(format!(
            "follow_token_file: {at} is empty; write the leader's token into it"
        ));
    }
    Ok(token.to_owned())
}
