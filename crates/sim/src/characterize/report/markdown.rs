//! The fidelity matrix as a document.

use std::fmt::Write;

use super::Report;
use crate::characterize::emulators;

pub(super) fn fidelity(report: &Report) -> String {
    let mut text = String::from("# Which emulator shows which observation\n\n");
    let emulators = emulators();
    let names: Vec<&str> = emulators.iter().map(|emulator| emulator.name).collect();
    line(&mut text, format_args!("| observation | {} | {} |", names.join(" | "), report.subject));
    line(&mut text, format_args!("|---|{}---|", "---|".repeat(names.len())));
    for row in &report.fidelity {
        let others: Vec<&str> = row.others.iter().map(|shows| shows.text()).collect();
        let others = others.join(" | ");
        line(&mut text, format_args!("| {} {} | {others} | {} |", row.number, row.title, row.ours));
    }
    line(&mut text, format_args!(""));
    for emulator in &emulators {
        line(&mut text, format_args!("- {}: {}.", emulator.name, emulator.because));
    }
    text.push_str(
        "\nQEMU has no timing model. The columns of FEMU, NVMeVirt and ConfZNS are from the \
         characterisation paper's section on emulation, as of its writing; the last column is \
         generated from the verdicts of the run beside this file.\n",
    );
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("text in memory takes every line");
}
