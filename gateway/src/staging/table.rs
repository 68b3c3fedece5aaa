//! Columns of text.

/// A size for people: `1.4 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    // What would be shown as 1024.0 is 1.0 of the next.
    while size >= 1_023.95 && units.len() > 0 {
        size /= 1024.0;
        unit = units.next();
    }
    format!("{size:.1} {}", unit.copied().unwrap_or_default())
}

/// `1 block`, `2 blocks`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Rows under their heads, columns as wide as what is in them and right-aligned.
pub(crate) fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heads.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.into_iter().zip(widths) {
            line.push_str(&format!("{cell:>width$}  "));
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(heads)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (size, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1 << 10, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (5 << 40, "5.0 TiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(size), shown);
        }
    }

    #[test]
    fn columns_align() {
        let rows = [["1".to_owned(), "free".to_owned()], ["22".to_owned(), "é".to_owned()]];
        assert_eq!(table(["n", "state"], &rows), " n  state\n 1   free\n22      é\n");
    }
}
