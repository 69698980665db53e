//! Residuals as a table and in groups.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::points::Residual;

/// Residuals of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The common operation and quantity.
    pub name: String,
    /// Number of residuals.
    pub count: usize,
    /// Root of the mean square of the errors, in percent.
    pub rms_percent: f64,
    /// The largest error, in percent, with its sign.
    pub worst_percent: f64,
}

/// The residuals by kind: rates, latencies without a queue, and other percentiles.
#[must_use]
pub fn groups(residuals: &[Residual]) -> Vec<Group> {
    let mut kinds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for residual in residuals {
        kinds.entry(kind(residual)).or_default().push(residual.error_percent());
    }
    kinds.into_iter().map(|(name, errors)| group(name, &errors)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "hundreds of rows")]
fn group(name: String, errors: &[f64]) -> Group {
    let squares: f64 = errors.iter().map(|error| error * error).sum();
    let worst = errors.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
    Group {
        name,
        count: errors.len(),
        rms_percent: (squares / errors.len() as f64).sqrt(),
        worst_percent: worst.unwrap_or(f64::NAN),
    }
}

fn kind(residual: &Residual) -> String {
    let row = &residual.row;
    let depth = row.zones * row.queue_depth;
    match (row.quantity.as_str(), row.operation.as_str()) {
        ("iops", "read-under-write") => format!("{}, IOPS, QD{}", row.group, row.queue_depth),
        ("iops", _) => format!("{} IOPS", row.group),
        ("p50", _) if row.group == "512 B format" => format!("{} latency p50, QD1", row.group),
        ("p50", "read" | "write" | "append") if depth == 1 => "latency p50, QD1".to_owned(),
        ("p50" | "p95" | "p99", "read" | "write" | "append" | "read-under-write") => {
            format!("{} latency {}, not a target", row.group, row.quantity)
        }
        _ => row.group.clone(),
    }
}

/// Every row with the model's value and error, as CSV.
///
/// # Errors
///
/// Never: the table is in memory.
pub fn table(residuals: &[Residual]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = "group,operation,request_kib,zones,queue_depth,parameter,quantity,unit,measured,\
                model,error_percent,source";
    writer.write_record(head.split(','))?;
    for residual in residuals {
        let row = &residual.row;
        let number = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
        writer.write_record([
            row.group.clone(),
            row.operation.clone(),
            number(row.request_kib),
            row.zones.to_string(),
            row.queue_depth.to_string(),
            number(row.parameter),
            row.quantity.clone(),
            row.unit.clone(),
            row.measured.to_string(),
            format!("{:.4}", residual.model),
            format!("{:.2}", residual.error_percent()),
            row.source.clone(),
        ])?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The groups as a Markdown table.
#[must_use]
pub fn markdown(residuals: &[Residual]) -> String {
    let mut text = String::from(
        "# The timing model against measurements\n\n\
         Every measured row beside the model is in [residuals.csv](residuals.csv); where the measurements come from \
         is in\n[measured/ATTRIBUTION.md](measured/ATTRIBUTION.md). Latency percentiles under load are listed \
         though the model was not fitted to them.\n\n\
         | group | rows | rms error | largest error |\n|---|---|---|---|\n",
    );
    for group in groups(residuals) {
        let Group { name, count, rms_percent, worst_percent } = group;
        let _ = writeln!(text, "| {name} | {count} | {rms_percent:.1} % | {worst_percent:+.1} % |");
    }
    text
}
