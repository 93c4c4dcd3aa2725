//! Program text and kernel facts in; an image, a schema of what it will emit, and diagnostics out. Never touches a live kernel, never stops at the first error.
