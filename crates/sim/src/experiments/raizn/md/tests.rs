//! Commands of the array on small drives.

use zoneweave_emulator::ConventionalDrive;

use super::*;

const UNIT: u32 = 4;

/// Blocks of a stripe.
const STRIPE: usize = 16;

fn array() -> ConventionalArray {
    ConventionalArray { unit: UNIT, blocks: 1, written: 0, blank: None, seed: 1 }
}

fn blocks(count: usize) -> Vec<Bytes> {
    vec![Bytes::from(vec![0; count * BLOCK_BYTES])]
}

fn written(drives: &[ConventionalDrive]) -> Vec<u64> {
    drives.iter().map(|drive| drive.counters().written_blocks).collect()
}

#[test]
fn a_whole_stripe_is_written_with_its_parity() {
    let run = array().run(async |md, _, drives| {
        md.write(Lba(0), blocks(STRIPE), false).await.unwrap();
        Ok(written(drives))
    });
    assert_eq!(run.unwrap(), [4; 5]);
}

#[test]
fn blocks_that_fill_a_stripe_together_are_written_together() {
    let run = array().run(async |md, handle, drives| {
        let writes = (0..STRIPE as u64).map(|at| md.write(Lba(at), blocks(1), false));
        try_join_all(writes).await.unwrap();
        assert!(handle.now().0 < 200_000, "nothing waits: {}", handle.now());
        Ok(written(drives))
    });
    assert_eq!(run.unwrap(), [4; 5]);
}

#[test]
fn a_partial_stripe_is_completed_by_reads() {
    let run = array().run(async |md, _, drives| {
        md.write(Lba(0), blocks(1), false).await.unwrap();
        Ok(written(drives).iter().sum::<u64>())
    });
    assert_eq!(run.unwrap(), 2, "the block and its parity");
}

#[test]
fn the_fewer_reads_complete_a_stripe() {
    let run = array().run(async |md, _, _| {
        let mut has = vec![false; STRIPE];
        has[1] = true;
        let one = md.0.plan(0, &has).reads;
        assert_eq!(one.iter().map(|span| span.blocks).collect::<Vec<_>>(), [1, 1]);
        has[..12].fill(true);
        let most = md.0.plan(0, &has).reads;
        assert_eq!(most, [md.0.span(md.0.data_drive(0, 3), 0, &(0..4))]);
        assert!(md.0.plan(0, &[true; STRIPE]).reads.is_empty());
        Ok(())
    });
    run.unwrap();
}

#[test]
fn a_degraded_read_reads_each_other_drive_once() {
    let run = array().run(async |md, _, _| {
        // Parity of the first stripe is on the last drive.
        assert_eq!((md.0.parity_drive(0), md.0.data_drive(0, 0)), (4, 0));
        assert_eq!(md.0.spans_of_read(0..16).len(), 4);
        md.lose(0);
        let one = md.0.spans_of_read(1..2);
        assert_eq!(
            one.iter().map(|span| (span.drive, span.at, span.blocks)).collect::<Vec<_>>(),
            [(1, Lba(1), 1), (2, Lba(1), 1), (3, Lba(1), 1), (4, Lba(1), 1)]
        );
        let all = md.0.spans_of_read(0..16);
        assert_eq!(
            all.iter().map(|span| (span.drive, span.blocks)).collect::<Vec<_>>(),
            [(1, 4), (2, 4), (3, 4), (4, 4)]
        );
        assert_eq!(md.0.spans_of_read(4..8).len(), 1, "of a drive that is there");
        md.read(Lba(0), 16).await.unwrap();
        Ok(())
    });
    run.unwrap();
}

#[test]
fn a_resync_writes_everything() {
    let run = array().run(async |md, _, drives| {
        md.lose(2);
        md.resync(2, 1000).await.unwrap();
        Ok(written(drives))
    });
    assert_eq!(run.unwrap(), [0, 0, 1000, 0, 0]);
}
