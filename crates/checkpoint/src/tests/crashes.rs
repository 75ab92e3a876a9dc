//! A crash at any step leaves the old checkpoint or the new one, as a whole.

use super::{Folder, LIMITS, read_all, two, write};

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_checkpoint() {
    let [before, after] = two();
    let (mut old, mut new) = (0, 0);
    for steps in 0.. {
        let folder = Folder::new();
        let mut directory = folder.open();
        let first = write(&mut directory, &before, &Default::default(), LIMITS).unwrap();
        directory.confirm(first.id).unwrap();
        directory.disk.steps_left.set(steps);
        let second = write(&mut directory, &after, &before, LIMITS);
        let confirmed = second.as_ref().ok().map(|second| directory.confirm(second.id));
        let is_through = matches!(confirmed, Some(Ok(())));
        drop(directory);
        let mut directory = folder.open();
        let remains = directory.remains().to_vec();
        assert!((1..=2).contains(&remains.len()) && remains.iter().all(|manifest| manifest.extra == [8]));
        let newest = &remains[0];
        match newest.id == first.id {
            true => old += 1,
            false => new += 1,
        }
        // Unless the new one was announced, the caller looks for the old one.
        match &second {
            Ok(second) => assert_eq!(newest.id, second.id),
            Err(_) => assert!(remains.iter().any(|manifest| manifest.id == first.id)),
        }
        for manifest in &remains {
            let want = if manifest.id == first.id { &before } else { &after };
            assert_eq!(read_all(&directory, manifest).unwrap(), *want);
            let heads = manifest.tables.iter().map(|table| table.head.clone());
            assert!(heads.eq(want.keys().map(|relid| super::head(*relid, want))));
        }
        // The next checkpoint works, and nothing is left of all others.
        directory.confirm(newest.id).unwrap();
        let present = read_all(&directory, newest).unwrap();
        let third = write(&mut directory, &before, &present, LIMITS).unwrap();
        directory.confirm(third.id).unwrap();
        assert_eq!(read_all(&directory, &directory.remains()[0].clone()).unwrap(), before);
        assert_eq!(folder.files().len(), 1 + named(&directory).len());
        if is_through {
            break;
        }
        assert!(steps < 1000);
    }
    assert!(old > 3 && new > 2, "{old} old, {new} new");
}

fn named(directory: &crate::Directory) -> std::collections::BTreeSet<u64> {
    directory.remains().iter().flat_map(|manifest| manifest.files()).collect()
}

#[test]
fn a_failed_checkpoint_leaves_nothing() {
    let [before, after] = two();
    let folder = Folder::new();
    let mut directory = folder.open();
    let first = write(&mut directory, &before, &Default::default(), LIMITS).unwrap();
    directory.confirm(first.id).unwrap();
    let files = folder.files();
    let mut checkpoint = directory.begin(LIMITS, Default::default()).unwrap();
    let mut table = checkpoint.table();
    table.chunk(1, 1);
    table.write(1, &[1; 9000]).unwrap();
    drop(checkpoint);
    assert_eq!(folder.files(), files);
    // One that fails in a write may not go on.
    let mut checkpoint = directory.begin(LIMITS, Default::default()).unwrap();
    checkpoint.directory.disk.steps_left.set(0);
    let mut table = checkpoint.table();
    table.chunk(1, 1);
    table.write(1, &[1]).unwrap_err();
    checkpoint.directory.disk.steps_left.set(usize::MAX);
    let mut table = checkpoint.table();
    table.chunk(1, 1);
    assert!(matches!(table.write(1, &[1]), Err(crate::Error::Void)));
    assert!(matches!(checkpoint.finish(vec![]), Err(crate::Error::Void)));
    assert_eq!(folder.files(), files);
    write(&mut directory, &after, &before, LIMITS).unwrap();
    assert!(matches!(write(&mut directory, &after, &after, LIMITS), Err(crate::Error::Unconfirmed)));
    assert!(matches!(directory.confirm(1), Err(crate::Error::Unknown)));
    // The older one may be confirmed, too.
    directory.confirm(first.id).unwrap();
    assert_eq!(folder.files(), files);
    directory.clear().unwrap();
    assert!(folder.files().is_empty() && directory.remains().is_empty());
}
