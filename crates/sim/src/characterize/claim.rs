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
    /// This drive does not, and what the paper saw has been traced to how it was measured.
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
    /// Where it is known to come from, if not from the drive.
    pub artefact: Option<&'static str>,
}

/// A number or two of this drive, and whether the rule is met; nothing if they were not measured.
pub(super) type Found = Option<(String, bool)>;

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

    /// If it does not hold, this is where the paper's figure comes from.
    pub(super) fn artefact(self, cause: &'static str) -> Self {
        Self { artefact: Some(cause), ..self }
    }

    /// Decides the claim.
    pub(super) fn found(self, found: Found) -> Self {
        let verdict = match (&found, self.artefact) {
            (None, _) => Verdict::CannotBeMeasured,
            (Some((_, true)), _) => Verdict::Holds,
            (Some((_, false)), Some(_)) => Verdict::Artefact,
            (Some((_, false)), None) => Verdict::DoesNotHold,
        };
        Self { verdict, drive: found.map(|(text, _)| text).unwrap_or_default(), ..self }
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

    #[test]
    fn an_observation_is_as_good_as_its_deciding_claims() {
        let artefact = || Claim::new("s", "r").artefact("host").found(Some((String::new(), false)));
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
    fn a_known_artefact_that_does_show_is_no_artefact() {
        let claim = Claim::new("s", "r").artefact("host").found(Some((String::new(), true)));
        assert_eq!(claim.verdict, Verdict::Holds);
    }
}
