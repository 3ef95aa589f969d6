"""The streaming queries of TPCx-BB, laid out as in Table 1 of Prasaad et al., *Scaling Ordered Stream Processing*.

====== =============================== ================================================================
query  operators                       what it finds
====== =============================== ================================================================
q01    SS → SL → PS → PS → SF          the pairs of items that are sold together most, each hour
q02    WC → SL → PS → SL → PS → SF     the pairs of products that are viewed together most, each day
q03    WC → SL → PS → PS               the products that are viewed most before one is bought, each day
q04    WC → SL → PS → SL → SF          how many pages the visits have that leave a full cart behind
q15    SS → SL → SL → PS               the categories with flat or declining sales, each four weeks
====== =============================== ================================================================

WC are clicks on the web and SS sales in stores, both from :mod:`thalweg.datagen`. SL is a stateless operator,
PS one with a state a key (*partitioned stateful*), SF one with a single state (*stateful*). TPCx-BB asks of a
whole data set; a stream answers for each period, when it is over.

The docstring of each query says what it gives in SQL (DuckDB's); there the rows of ``clicks`` and ``sales``
have one more column, ``number``, which counts them in the order of (time, arrival). Each runs as a command:
``python -m thalweg.examples.tpcx_bb.q01``.
"""
