//! What the bars are held against: programs that do the work alone, without what a server does beside it.
//!
//!     millpond-bare echo ADDRESS        every byte back as it came: tokio, one thread, a task a connection
//!     millpond-bare answer ADDRESS BYTES  an answer with a payload of so many bytes to every frame, as bare
//!     millpond-bare table lookup|ready|bytes FOLDER  a feature table in one process: million keys a second, seconds until it is ready, bytes an entry
//!     millpond-bare ordered store|ferntree|masstree THREADS KEYS  an ordered map in one process: puts, gets and scans a second, bytes an entry
//!     millpond-bare ordered-recovery FOLDER KEYS  a store in that folder: keys a second that are put, read back from its log, loaded from its checkpoint
//!     millpond-bare batches ADDRESS     `ordered.batch` of a store in memory, by a bare epoll loop
//!     millpond-bare batches-in-process KEYS  the same batches in one process: how many a second
//!     millpond-bare parquet FILE        the parquet crate alone: million rows a second of a file that is read
//!     millpond-bare work echo COUNT     the payload of so many calls read, and their answers written
//!     millpond-bare work lookup FOLDER COUNT  the same, and a key of the table in the folder looked up
//!     millpond-bare r1 ADDRESS FOLDER   one request of R1 for each byte that comes, which is then sent back: hash, look up, assemble, model
//!     millpond-bare r1-model ADDRESS FOLDER  R1's model alone, at the batch size that gives the most: a request for each byte, which is then sent back
//!     millpond-bare scheduler submit|hand-over  microseconds that the batcher adds before a run: for one client, and between the runs of a long queue
//!
//! A scenario starts them as a target's command and asks them by the protocol `echo`, or `native` where they speak frames.

mod answer;
mod batches;
mod echo;
mod ordered;
mod parquet;
mod r1;
mod r1_model;
mod scheduler;
mod table;
mod work;

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["echo", address] => echo::serve(address),
        ["answer", address, bytes] => answer::serve(address, bytes.parse()?),
        ["r1", address, folder] => r1::serve(address, Path::new(folder)),
        ["r1-model", address, folder] => r1_model::serve(address, Path::new(folder)),
        ["table", "lookup", folder] => table::lookup(Path::new(folder)),
        ["table", "ready", folder] => table::ready(Path::new(folder)),
        ["table", "bytes", folder] => table::bytes(Path::new(folder)),
        ["ordered", map, threads, keys] => ordered::measure(map, threads.parse()?, keys.parse()?),
        ["ordered-recovery", folder, keys] => ordered::recovery::measure(Path::new(folder), keys.parse()?),
        ["batches", address] => batches::serve(address),
        ["batches-in-process", keys] => batches::in_process(keys.parse()?),
        ["parquet", file] => parquet::read(Path::new(file)),
        ["work", "echo", count] => work::echo(count.parse()?),
        ["work", "lookup", folder, count] => work::lookup(Path::new(folder), count.parse()?),
        ["scheduler", "submit"] => scheduler::submit(),
        ["scheduler", "hand-over"] => scheduler::hand_over(),
        _ => anyhow::bail!(
            "usage: millpond-bare echo ADDRESS | answer ADDRESS BYTES | r1 ADDRESS FOLDER | r1-model ADDRESS FOLDER | table lookup|ready|bytes FOLDER | ordered store|ferntree|masstree THREADS KEYS | ordered-recovery FOLDER KEYS | batches ADDRESS | batches-in-process KEYS | parquet FILE | work echo COUNT | work lookup FOLDER COUNT | scheduler submit|hand-over"
        ),
    }
}
