//! Claims about a drive, and verdicts on them.

use serde::Serialize;

/// What the numbers say about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// This drive does so.
    Holds,
    /// This drive does not.
    DoesNotHold,
    /// This drive does not; it does what the paper's own data set shows instead, and what the paper
    /// says has been traced to how it was measured or read.
    Artefact,
    /// The run has not the numbers.
    CannotBeMeasured,
}

impl Verdict {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::Artefact => "artefact",
            Self::CannotBeMeasured => "cannot be measured here",
        }
    }
}

/// A statement that numbers decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The statement.
    pub statement: &'static str,
    /// The rule that decides it.
    pub rule: &'static str,
    /// What the paper says.
    pub paper: &'static str,
    /// What its published data set says.
    pub data_set: &'static str,
    /// What this drive does; empty if it cannot be measured.
    pub drive: String,
    /// What follows.
    pub verdict: Verdict,
    /// Whether the observation stands and falls with it.
    pub decides: bool,
    /// What else it may be, where paper and data set disagree.
    pub artefact: Option<Artefact>,
}

/// What the data set has in place of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Artefact {
    /// Where the claim comes from, if not from the drive.
    pub cause: &'static str,
    /// The rule that tells whether this drive does as the data set has it.
    pub rule: &'static str,
}

/// A number or two of this drive, and whether the rule is met; nothing if they were not measured.
pub(super) type Found = Option<(String, bool)>;

/// As [`Found`], and whether the rule of the data set is met.
pub(super) type FoundOfTwo = Option<(String, bool, bool)>;

impl Claim {
    /// A claim that its observation stands and falls with.
    pub(super) fn new(statement: &'static str, rule: &'static str) -> Self {
        Self {
            statement,
            rule,
            paper: "–",
            data_set: "–",
            drive: String::new(),
            verdict: Verdict::CannotBeMeasured,
            decides: true,
            artefact: None,
        }
    }

    /// What others measured.
    pub(super) fn known(self, paper: &'static str, data_set: &'static str) -> Self {
        Self { paper, data_set, ..self }
    }

    /// The claim is shown beside those that decide.
    pub(super) fn aside(self) -> Self {
        Self { decides: false, ..self }
    }

    /// Decides the claim.
    pub(super) fn found(self, found: Found) -> Self {
        let verdict = match &found {
            None => Verdict::CannotBeMeasured,
            Some((_, true)) => Verdict::Holds,
            Some((_, false)) => Verdict::DoesNotHold,
        };
        Self { verdict, drive: found.map(|(text, _)| text).unwrap_or_default(), ..self }
    }

    /// Decides a claim that the data set does not bear out: the drive may do as the paper says, as
    /// the data set has it, or neither.
    pub(super) fn disputed(self, artefact: Artefact, found: FoundOfTwo) -> Self {
        let verdict = match &found {
            None => Verdict::CannotBeMeasured,
            Some((_, true, _)) => Verdict::Holds,
            Some((_, false, true)) => Verdict::Artefact,
            Some((_, false, false)) => Verdict::DoesNotHold,
        };
        let drive = found.map(|(text, ..)| text).unwrap_or_default();
        Self { verdict, drive, artefact: Some(artefact), ..self }
    }
}

/// One of the thirteen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// From 1 to 13.
    pub number: u8,
    /// In short.
    pub title: &'static str,
    /// What it is made of.
    pub claims: Vec<Claim>,
    /// From the claims that decide.
    pub verdict: Verdict,
}

impl Observation {
    /// Decides the observation: it holds if all deciding claims that could be measured hold; if
    /// some do not, it is an artefact if each of those is one.
    pub(super) fn new(number: u8, title: &'static str, claims: Vec<Claim>) -> Self {
        let verdicts: Vec<Verdict> = claims
            .iter()
            .filter(|claim| claim.decides && claim.verdict != Verdict::CannotBeMeasured)
            .map(|claim| claim.verdict)
            .collect();
        let verdict = if verdicts.is_empty() {
            Verdict::CannotBeMeasured
        } else if verdicts.contains(&Verdict::DoesNotHold) {
            Verdict::DoesNotHold
        } else if verdicts.contains(&Verdict::Artefact) {
            Verdict::Artefact
        } else {
            Verdict::Holds
        };
        Self { number, title, claims, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(found: Option<bool>) -> Claim {
        Claim::new("s", "r").found(found.map(|met| (String::from("1"), met)))
    }

    fn disputed(paper: bool, data_set: bool) -> Claim {
        let artefact = Artefact { cause: "host", rule: "r" };
        Claim::new("s", "r").disputed(artefact, Some((String::from("1"), paper, data_set)))
    }

    #[test]
    fn an_observation_is_as_good_as_its_deciding_claims() {
        let artefact = || disputed(false, true);
        let verdict = |claims| Observation::new(1, "t", claims).verdict;
        assert_eq!(verdict(vec![claim(Some(true)), claim(None)]), Verdict::Holds);
        assert_eq!(verdict(vec![claim(Some(true)), artefact()]), Verdict::Artefact);
        assert_eq!(verdict(vec![claim(Some(false)), artefact()]), Verdict::DoesNotHold);
        assert_eq!(verdict(vec![claim(Some(true)), claim(Some(false)).aside()]), Verdict::Holds);
        assert_eq!(
            verdict(vec![claim(None), claim(Some(true)).aside()]),
            Verdict::CannotBeMeasured
        );
    }

    #[test]
    fn a_disputed_claim_is_an_artefact_only_if_the_drive_does_as_the_data_set() {
        assert_eq!(disputed(true, false).verdict, Verdict::Holds);
        assert_eq!(disputed(true, true).verdict, Verdict::Holds);
        assert_eq!(disputed(false, true).verdict, Verdict::Artefact);
        assert_eq!(disputed(false, false).verdict, Verdict::DoesNotHold);
    }
}
