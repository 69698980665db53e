//! Fig. 2: Zone Write and Zone Append to one drive, by the number of zones.

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_runtime::{Executor, Nanos, VirtualTime};
use zoneweave_zoned::{BlockCount, ZoneId, ZonedDevice};

use std::rc::Rc;

use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape, within};
use crate::experiments::zapraid::loads::writes::{P50, P95, P99, THROUGHPUT, figures_of};
use crate::experiments::zapraid::method::kib;
use crate::experiments::{ExperimentError, Report, Values};
use crate::workload::{Host, Job, Length, Operation, Pace, Refill};

/// Bytes that the paper writes.
const WRITTEN_BYTES: f64 = 512.0 * 1_073_741_824.0;

/// Warm-up: a write buffer that ever fills is full by then.
const WARM_UP: Nanos = Nanos::from_millis(200);

const ZONES: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

const REQUESTS: [u32; 3] = [1, 2, 4];

const OPERATIONS: [Operation; 2] = [Operation::Write, Operation::Append];

const METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99];

const METHOD: &str = "\
One drive `zn540-4tb` with empty zones of real size. A thread per zone writes it front to back, \
with one request in flight (Zone Write) or four (Zone Append), as in the paper. A run writes a \
part of the paper's 512 GiB, given by the scale, after a warm-up of 200 ms: by then the write \
buffer is full if it ever is. A thread takes 0.5 us to submit a request and 0.45 us to complete \
it.

Values are means of runs with different seeds, with the half-width of the 95 % confidence \
interval (Student's t). Results without a number in the paper's text are not compared.

The preset was fitted to the twelve numbers in the paper's text for this figure. So their \
agreement shows that the model can be fitted, not that it predicts. The points between them were \
not fitted. There the model's Zone Write is limited by one core from three zones on, while the \
paper says only that it is generally higher with more zones.";

/// Throughput in the text of section 2.2.
const PAPER: [(Operation, u32, u32, f64); 12] = [
    (Operation::Write, 1, 1, 337.6),
    (Operation::Write, 2, 1, 613.6),
    (Operation::Write, 4, 1, 1050.0),
    (Operation::Append, 1, 1, 541.5),
    (Operation::Append, 2, 1, 1026.6),
    (Operation::Append, 4, 1, 1050.1),
    (Operation::Write, 1, 6, 777.1),
    (Operation::Append, 1, 2, 577.5),
    (Operation::Write, 2, 8, 1430.7),
    (Operation::Append, 2, 2, 1058.6),
    (Operation::Write, 4, 8, 1750.0),
    (Operation::Append, 4, 8, 1750.0),
];

const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Append => "zone-append",
        _ => "zone-write",
    }
}

fn name(operation: Operation, blocks: u32, zones: u32) -> String {
    format!("{} {} zones={zones}", kib(blocks), operation_name(operation))
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for blocks in REQUESTS {
        for operation in OPERATIONS {
            for zones in ZONES {
                let paper =
                    PAPER.iter().find(|row| (row.0, row.1, row.2) == (operation, blocks, zones));
                let work = move |scale, seed| run(operation, blocks, zones, scale, seed);
                let one = Configuration::new(name(operation, blocks, zones), work);
                configurations.push(one.published(THROUGHPUT, paper.map(|row| row.3)));
            }
        }
    }
    Suite {
        title: "ZapRAID, Fig. 2: Zone Write and Zone Append to one drive",
        method: METHOD.to_owned(),
        metrics: METRICS,
        configurations,
        judge,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some GiB")]
fn run(
    operation: Operation,
    blocks: u32,
    zones: u32,
    scale: f64,
    seed: u64,
) -> Result<Values, ExperimentError> {
    let preset = Preset::by_name("zn540-4tb")?;
    let requests = (WRITTEN_BYTES * scale) as u64 / BlockCount(blocks).data_bytes() as u64;
    let drive = RamDrive::new(preset.geometry().clone(), preset.timing(seed))?;
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let device: Rc<dyn ZonedDevice> = drive.attach(&handle);
    let queue_depth = if operation == Operation::Append { 4 } else { 1 };
    let length =
        Length { warm_up: WARM_UP, duration: Nanos(u64::MAX), operations: requests.max(1) };
    let job = Job {
        operation,
        request: BlockCount(blocks),
        streams: zones,
        zones: (0..preset.geometry().zones).map(ZoneId).collect(),
        written: BlockCount(0),
        refill: Refill::Reset,
        pace: Pace { queue_depth, host: Host::SPDK, rate_bytes_per_second: None, length, seed },
    };
    let measured = executor.run(job.run(&handle, &device))?;
    Ok(figures_of(&measured.figures))
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |operation, blocks, zones| results.mean(&name(operation, blocks, zones), THROUGHPUT);
    for (operation, blocks, zones, paper) in PAPER {
        let what = format!("{}, MiB/s", name(operation, blocks, zones));
        report.findings.push(within(what, of(operation, blocks, zones), paper, 0.08));
    }
    let series = |operation, blocks| ZONES.map(|zones| of(operation, blocks, zones));
    let shown = |values: [f64; ZONES.len()]| values.map(|value| format!("{value:.0}")).join(", ");
    for blocks in [1, 2] {
        let (writes, appends) =
            (series(Operation::Write, blocks), series(Operation::Append, blocks));
        report.findings.extend([
            shape(
                &format!("{}: Zone Write, 1 to 8 zones", kib(blocks)),
                "generally higher with more zones",
                shown(writes),
                "none below 0.97 of the one before",
                writes.windows(2).all(|pair| pair[1] >= 0.97 * pair[0]),
            ),
            shape(
                &format!("{}: Zone Append, 1 to 8 zones", kib(blocks)),
                "the highest with two",
                shown(appends),
                "none more than 1 % above two",
                appends.iter().all(|value| *value <= 1.01 * appends[1]),
            ),
            shape(
                &format!("{}: Zone Append over Zone Write, one zone and eight", kib(blocks)),
                "above with one, below with many",
                format!("{:.2}, {:.2}", appends[0] / writes[0], appends[7] / writes[7]),
                "above 1, below 1",
                appends[0] > writes[0] && appends[7] < writes[7],
            ),
        ]);
    }
    let (writes, appends) = (series(Operation::Write, 4), series(Operation::Append, 4));
    let apart = writes.iter().zip(appends).map(|(write, append)| (append / write - 1.0).abs());
    let apart = apart.fold(0.0, f64::max);
    report.findings.push(shape(
        "16 KiB: largest difference of Zone Append and Zone Write",
        "very small",
        format!("{:.1} %", 100.0 * apart),
        "at most 10 %",
        apart <= 0.1,
    ));
    for (blocks, file, title) in [
        (1, "fig2_4k", "Requests of 4 KiB"),
        (2, "fig2_8k", "Requests of 8 KiB"),
        (4, "fig2_16k", "Requests of 16 KiB"),
    ] {
        let line = |operation: Operation| Line {
            name: operation_name(operation).to_owned(),
            points: ZONES.map(|zones| (f64::from(zones), of(operation, blocks, zones))).to_vec(),
        };
        let lines = OPERATIONS.map(line).into();
        report.chart(&Chart { name: file, title, x: "zones", y: THROUGHPUT.unit, lines });
    }
}
