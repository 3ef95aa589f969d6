"""Where rows enter: lateness, watermarks, lanes, idle sources, and the order in which rows are released."""
