//! Space and bytes written stay bounded over many checkpoints.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Folder, Tables, read_all, write};
use crate::Limits;

fn random_piece(rnd: &mut StdRng) -> Vec<u8> {
    let length = [0, 1, 100, 3000][rnd.random_range(0..4)];
    (0..length).map(|_| rnd.random()).collect()
}

fn random_chunks(rnd: &mut StdRng) -> Vec<Vec<Vec<u8>>> {
    (0..rnd.random_range(0..6)).map(|_| (0..4).map(|_| random_piece(rnd)).collect()).collect()
}

fn live(tables: &Tables) -> u64 {
    tables.values().flatten().flatten().map(|piece| piece.len() as u64).sum()
}

#[test]
fn many_checkpoints_take_little_more_than_the_last_one() {
    let rnd = &mut StdRng::seed_from_u64(1);
    let folder = Folder::new();
    let mut directory = folder.open();
    let limits = Limits { bytes: 1 << 30, file_bytes: 50_000 };
    let mut tables: Tables = (0..20).map(|relid| (relid, random_chunks(rnd))).collect();
    let mut before = Tables::new();
    let (mut written, mut changed) = (0, live(&tables));
    for round in 0..200 {
        let finished = write(&mut directory, &tables, &before, limits).unwrap();
        assert!(finished.lost.is_empty());
        written += finished.bytes_written;
        directory.confirm(finished.id).unwrap();
        if round % 20 == 7 {
            drop(directory);
            directory = folder.open();
        }
        let manifest = directory.remains()[0].clone();
        assert_eq!(read_all(&directory, &manifest).unwrap(), tables);
        let (bytes, least) = (directory.bytes().unwrap(), live(&tables));
        assert!(bytes < 3 * least + 20_000, "{bytes} bytes for {least}");
        let files = folder.files().len();
        assert!(files < 12 + 2 * (least / limits.file_bytes) as usize, "{files} files for {least} bytes");
        before = tables.clone();
        for _ in 0..rnd.random_range(0..4) {
            let relid = rnd.random_range(0..20);
            match (rnd.random_range(0..10), tables.get_mut(&relid)) {
                (0, _) => _ = tables.remove(&relid),
                (1, _) | (_, None) => {
                    let chunks = random_chunks(rnd);
                    changed += chunks.iter().flatten().map(|piece| piece.len() as u64).sum::<u64>();
                    tables.insert(relid, chunks);
                }
                (_, Some(chunks)) => {
                    for piece in chunks.iter_mut().flatten() {
                        if rnd.random_bool(0.2) {
                            *piece = random_piece(rnd);
                            changed += piece.len() as u64;
                        }
                    }
                }
            }
        }
    }
    assert!(written < 6 * changed, "{written} bytes were written for {changed} that had changed");
}

#[test]
fn a_table_whose_old_pieces_are_damaged_is_left_out() {
    let folder = Folder::new();
    let mut directory = folder.open();
    let limits = Limits { bytes: 1 << 30, file_bytes: 1 << 20 };
    let before: Tables = (1..4).map(|relid| (relid, vec![vec![vec![relid as u8; 1000]]])).collect();
    let first = write(&mut directory, &before, &Tables::new(), limits).unwrap();
    directory.confirm(first.id).unwrap();
    let (name, mut bytes) = folder.files().into_iter().find(|(name, _)| name.contains("chunks")).unwrap();
    let at = bytes.iter().position(|byte| *byte == 2).unwrap();
    bytes[at] = 9;
    std::fs::write(folder.path().join(name), bytes).unwrap();
    let mut after = before.clone();
    after.insert(4, vec![vec![vec![4; 9000]]]);
    let second = write(&mut directory, &after, &before, limits).unwrap();
    assert_eq!(second.lost, [2]);
    directory.confirm(second.id).unwrap();
    after.remove(&2);
    assert_eq!(read_all(&directory, &directory.remains()[0].clone()).unwrap(), after);
    assert_eq!(folder.files().len(), 2, "the old file was copied, and removed");
}
