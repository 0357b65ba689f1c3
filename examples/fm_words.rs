// interface: rust
//! Fast Messages in Rust, without MPI: every node sends every other a text in pieces, and the handlers take it in word by
//! word.
//!
//! `cargo build -p farpost-node --example fm_words && mpiexec -n 3 target/debug/examples/fm_words`

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use farpost_fm::{Flow, Fm};
use farpost_node::Node;

const TEXT: u32 = 0;
const WORD: usize = 8;
const WORDS: usize = 1000;

fn main() -> Result<(), String> {
    let node = Node::join()?;
    let fm = Fm::new(
        Rc::clone(&node.fabric),
        &node.settings.fm,
        &node.settings.wait,
        16,
    );
    let texts = Rc::new(Cell::new(0));
    let wrong = Rc::new(Cell::new(0));
    let (counted, missed) = (Rc::clone(&texts), Rc::clone(&wrong));
    fm.register_handler(TEXT, move |_, message, from| {
        // Suspended in here while words are on their way; other nodes' texts go on meanwhile.
        for number in 0..WORDS {
            let mut word = [0; WORD];
            let wanted = format!("{:<WORD$}", from.0 as usize + number);
            if message.receive(&mut word).is_err() || word != wanted.as_bytes() {
                missed.set(missed.get() + 1);
            }
        }
        counted.set(counted.get() + 1);
        Flow::Continue
    })
    .map_err(|e| e.to_string())?;
    for to in (0..fm.nodes()).filter(|to| *to != fm.node()) {
        let mut message = loop {
            match fm
                .begin_message(to, WORDS * WORD, TEXT)
                .map_err(|e| e.to_string())?
            {
                Some(message) => break message,
                None => {
                    fm.extract_civilly(usize::MAX);
                }
            }
        };
        for number in 0..WORDS {
            let word = format!("{:<WORD$}", fm.node() as usize + number);
            message.piece(word.as_bytes()).map_err(|e| e.to_string())?;
        }
        message.end().map_err(|e| e.to_string())?;
    }
    while texts.get() + 1 < fm.nodes() {
        fm.extract_civilly(usize::MAX);
    }
    if !fm.close(Duration::from_secs(10)) || wrong.get() > 0 {
        return Err(format!(
            "{} words were wrong, or not all were accepted",
            wrong.get()
        ));
    }
    println!("node {} has {} texts", fm.node(), texts.get());
    Ok(())
}
