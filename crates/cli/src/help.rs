//! Help in lines that fit a terminal. The parser breaks no lines by itself.

use std::io::{self, IsTerminal, Write};

use clap::builder::StyledStr;

use crate::format::{COLUMNS, broken, columns};

/// Prints help, or the version.
pub(crate) fn print(help: &StyledStr) {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let text = match io::stdout().is_terminal() && !is_plain {
        true => help.ansi().to_string(),
        false => help.to_string(),
    };
    // There is no other place to report a failure, such as a closed pipe.
    let _ = io::stdout().lock().write_all(fitted(&text).as_bytes());
}

/// Breaks lines that are too long.
fn fitted(text: &str) -> String {
    let mut fitted = String::new();
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        fitted.push_str(&broken(line, hang(line)).join("\n"));
        fitted.push_str(end);
    }
    fitted
}

/// The column at which a line continues: its text, after a bullet or an option beside it.
fn hang(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let leading = line.len() - text.len();
    if leading == 0 {
        return 0;
    }
    // Between an option and its text are two spaces at least, as between a value and its text.
    let gap = text.char_indices().find(|(at, _)| text[*at..].starts_with("  "));
    let after = gap.map(|(at, _)| {
        let rest = text[at..].trim_start_matches(' ');
        columns(&text[..text.len() - rest.len()])
    });
    let bullet = text.find(": ").filter(|_| text.starts_with("- ")).map(|at| at + 2);
    let hang = leading + after.or(bullet).unwrap_or(0);
    // Beside a very long option there is no room.
    if hang > COLUMNS / 2 { leading + 2 } else { hang }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    fn check(command: &mut clap::Command) {
        for help in [command.render_help(), command.render_long_help()] {
            let text = help.to_string();
            let fitted = fitted(&text);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&text), words(&fitted), "no word is lost");
            for line in fitted.lines() {
                // A word that is too long for a line cannot be broken.
                let may_be_longer = !line.trim_start().contains(' ');
                assert!(
                    columns(line) <= COLUMNS || may_be_longer,
                    "{}: {line}",
                    command.get_name()
                );
            }
        }
        command.get_subcommands_mut().for_each(check);
    }

    #[test]
    fn the_help_of_every_verb_fits_a_terminal() {
        let mut command = Arguments::command();
        command.build();
        check(&mut command);
    }

    #[test]
    fn broken_lines_continue_below_their_text() {
        let word = "word ".repeat(20);
        let line = format!("      --size <SIZE>  {}", word.trim_end());
        let broken = fitted(&line);
        let second = broken.lines().nth(1).expect("it is too long");
        assert!(second.starts_with(&format!("{}word", " ".repeat(21))), "{broken}");
        let bullet = fitted(&format!("          - raid0: {word}"));
        assert!(bullet.lines().nth(1).is_some_and(|line| line.starts_with(&" ".repeat(19))));
        assert_eq!(fitted("short\n\nlines\n"), "short\n\nlines\n");
    }
}
