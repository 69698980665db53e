//! Claims about a drive, and verdicts on them.

use serde::Serialize;

/// The verdict of the measurements on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The drive confirms the claim.
    Holds,
    /// The drive contradicts the claim.
    DoesNotHold,
    /// The drive contradicts the claim and behaves as the paper's own data set shows; the paper's
    /// statement has been traced to its measurement or interpretation.
    Artefact,
    /// The run lacks the samples.
    CannotBeMeasured,
}

impl Verdict {
    /// The text for reports.
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
    /// The paper's value.
    pub paper: &'static str,
    /// The value of the paper's published data set.
    pub data_set: &'static str,
    /// The value of this drive; empty if it cannot be measured.
    pub drive: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the observation depends on it.
    pub decides: bool,
    /// The alternative, where paper and data set disagree.
    pub artefact: Option<Artefact>,
}

/// The data set's contradiction of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Artefact {
    /// The origin of the claim, other than the drive.
    pub cause: &'static str,
    /// The rule for behaviour as in the data set.
    pub rule: &'static str,
}

/// A number or two of this drive, and whether the rule holds; `None` if they were not measured.
pub(super) type Found = Option<(String, bool)>;

/// As [`Found`], and whether the rule of the data set holds.
pub(super) type FoundOfTwo = Option<(String, bool, bool)>;

impl Claim {
    /// A claim that decides its observation.
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

    /// Adds the measurements of the paper and of its data set.
    pub(super) fn known(self, paper: &'static str, data_set: &'static str) -> Self {
        Self { paper, data_set, ..self }
    }

    /// Shows the claim without letting it decide.
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

    /// Decides a claim that the data set contradicts: the drive may behave as the paper says, as
    /// the data set shows, or neither.
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

/// One of the thirteen observations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// From 1 to 13.
    pub number: u8,
    /// In short.
    pub title: &'static str,
    /// The claims.
    pub claims: Vec<Claim>,
    /// The verdict of the deciding claims.
    pub verdict: Verdict,
}

impl Observation {
    /// Decides the observation. It holds if all deciding claims that could be measured hold. If
    /// some do not, it is an artefact when each of those is one.
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
