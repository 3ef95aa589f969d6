"""NEXMark: the queries of an online auction by which streaming engines are compared."""
