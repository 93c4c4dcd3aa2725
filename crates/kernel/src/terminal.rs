//! The terminal's size.

/// Columns of the terminal on stdout, or on stderr where stdout is none; `None` without one.
/// `COLUMNS` in the environment goes first, as it does for other programs.
pub fn columns() -> Option<usize> {
    if let Some(columns) = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()) {
        return Some(columns);
    }
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().find_map(columns_of)
}

fn columns_of(fd: i32) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, which `size` is.
    let result = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
