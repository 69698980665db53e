//! Which emulators can show which observation.
//!
//! The columns of FEMU and NVMeVirt follow the emulation section of the characterisation paper,
//! that of ConfZNS its announcement. QEMU emulates zone states without timing. The last column
//! comes from the run itself.

use serde::Serialize;

use super::{Observation, Verdict};

/// How an emulator covers an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// Shown.
    Yes,
    /// In part.
    Partly,
    /// Announced by its authors, not examined by the paper.
    Announced,
    /// Not shown.
    No,
    /// The paper does not say.
    NotStated,
}

impl Shows {
    /// The text for reports.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "in part",
            Self::Announced => "announced",
            Self::No => "no",
            Self::NotStated => "not stated",
        }
    }
}

/// An emulator and its coverage of observations 1 to 13.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Emulator {
    /// Its name.
    pub name: &'static str,
    /// By observation.
    pub shows: [Shows; 13],
    /// The reason.
    pub because: &'static str,
}

/// One row of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fidelity {
    /// The observation.
    pub number: u8,
    /// The title of the observation.
    pub title: &'static str,
    /// QEMU, FEMU, NVMeVirt, ConfZNS.
    pub others: Vec<Shows>,
    /// The verdict of this run.
    pub ours: &'static str,
}

/// The emulators other than ours.
#[must_use]
pub fn emulators() -> Vec<Emulator> {
    use Shows::{Announced as A, No as N, NotStated as U, Partly as P, Yes as Y};
    vec![
        Emulator { name: "QEMU", shows: [N; 13], because: "zone semantics without a timing model" },
        Emulator {
            name: "FEMU",
            shows: [U, U, N, N, N, N, N, N, N, N, U, N, N],
            because: "no latency model for zoned drives: requests and transitions are as fast as the host",
        },
        Emulator {
            name: "NVMeVirt",
            shows: [U, U, Y, N, N, N, P, P, N, N, U, N, N],
            because: "channels and dies, but appends timed as writes, resets constant, no other transition",
        },
        Emulator {
            name: "ConfZNS",
            shows: [U, U, U, N, A, N, A, A, N, N, U, N, N],
            because: "a model of reads and of writes over zones; none of appends or transitions",
        },
    ]
}

/// The matrix, with our column from the verdicts of a run.
#[must_use]
pub fn fidelity(observations: &[Observation]) -> Vec<Fidelity> {
    let emulators = emulators();
    let row = |observation: &Observation| {
        let index = usize::from(observation.number) - 1;
        Fidelity {
            number: observation.number,
            title: observation.title,
            others: emulators.iter().map(|emulator| emulator.shows[index]).collect(),
            ours: match observation.verdict {
                Verdict::Holds => "yes",
                Verdict::Artefact => "as the data set has it: the paper's is an artefact",
                Verdict::DoesNotHold => "no",
                Verdict::CannotBeMeasured => "not measured",
            },
        }
    };
    observations.iter().map(row).collect()
}
