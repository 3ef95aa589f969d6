"""NEXMark: the queries of an online auction by which streaming engines are compared, as one would write them here.

==== =========================================== ==== ===========================================
q0   pass through                                q12  bids of a user by the clock on the wall
q1   prices in euros                             q13  a bid with a table's value, which changes
q2   some auctions                               q14  dear bids, calculated
q3   who sells nearby                            q15  a day's bids, bidders, auctions by price
q4   average price of a category                 q16  the same for each channel
q5   auctions with the most bids                 q17  a day's bids of each auction
q6   average price of a seller's last ten        q18  a bidder's last bid for an auction
q7   highest bid of each ten seconds             q19  the ten highest bids of an auction
q8   who came and opened an auction              q20  a bid with its auction
q9   winning bids                                q21  a bid with its channel's number
q10  all bids into files by day and minute       q22  the folders of an address
q11  sessions of a bidder
==== =========================================== ==== ===========================================

Persons, auctions and bids are what ``thalweg datagen nexmark --out FOLDER`` writes (it is in the lab's distribution).
``python -m thalweg.examples.nexmark q5 FOLDER`` runs a query over them. Rows may come four seconds late.
"""
