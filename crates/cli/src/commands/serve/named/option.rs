//! A key of the configuration file as words of a command line.

use clap::{Arg, ArgAction};
use toml::de::DeValue;

/// The least similarity of a key to another that is suggested instead, as in the parser of the
/// command line.
const SIMILAR: f64 = 0.7;

/// The message for a key that is none of those known, with the most similar one.
pub(super) fn unknown(key: &str, known: &[&str]) -> String {
    let similar = known.iter().map(|other| (strsim::jaro(key, other), other));
    let nearest = similar.max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest.filter(|(similarity, _)| *similarity > SIMILAR) {
        Some((_, nearest)) => format!("unknown key {key:?}: did you mean {nearest:?}?"),
        None => format!("unknown key {key:?}: use one of {}", known.join(", ")),
    }
}

/// The words that give an option its value.
///
/// # Errors
/// A message, if the value has another type than the option.
pub(super) fn words(option: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let name = option.get_long().unwrap_or_default();
    let found = value.type_str();
    let word = |value: &DeValue<'_>| match scalar(value) {
        Some(text) => Ok(format!("--{name}={text}")),
        None => {
            let found = value.type_str();
            Err(format!("{name} takes a string or a whole number, and this is of type {found}"))
        }
    };
    let is_flag = !option.get_action().takes_values();
    let may_be_alone = is_flag || option.get_num_args().is_some_and(|args| args.min_values() == 0);
    match value {
        DeValue::Boolean(true) if may_be_alone => Ok(vec![format!("--{name}")]),
        DeValue::Boolean(false) if may_be_alone => Ok(Vec::new()),
        _ if is_flag => Err(format!("{name} is true or false, and this is of type {found}")),
        DeValue::Array(values) if matches!(option.get_action(), ArgAction::Append) => {
            values.iter().map(|value| word(value.get_ref())).collect()
        }
        DeValue::Array(_) => Err(format!("{name} takes one value, and this is a list")),
        _ => word(value).map(|word| vec![word]),
    }
}

/// Drives, as the arguments that have no name.
///
/// # Errors
/// A message, if the value is no list of paths.
pub(super) fn drives(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let path = |value: &DeValue<'_>| match value {
        DeValue::String(path) => Ok(path.to_string()),
        _ => Err("drives is a list of paths".to_owned()),
    };
    match value {
        DeValue::Array(paths) => paths.iter().map(|value| path(value.get_ref())).collect(),
        one => path(one).map(|path| vec![path]),
    }
}

/// A value as it would be typed.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(number.to_string())
        }
        _ => None,
    }
}
