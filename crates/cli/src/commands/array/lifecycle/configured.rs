//! Volumes of the configuration file that name an array.

use crate::commands::serve::ConfigFile;
use crate::output::Output;

/// Tells the operator of the volumes that name an array which has another name now, or is gone.
/// Nothing depends on the file: one that cannot be read is none.
pub(super) fn tell_configured(name: &str, output: &Output) {
    let file = ConfigFile::of_units();
    let volumes = file.read().map(|config| config.volumes).unwrap_or_default();
    for table in volumes {
        let array = table.array().ok().and_then(|served| served.by_name.array);
        if array.as_deref() == Some(name) {
            output.note(format_args!("volume {} of {file} still names {name}", table.name()));
        }
    }
}
