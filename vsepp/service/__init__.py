"""A collection over HTTP: a REST interface, and the page that uses it.

serve.py listens, prints the link and runs the application that app.py puts together. A request passes the
middleware (access.py: headers, origin, token; limits.py: size of the body) and reaches a route (routes.py),
which runs slow work in threads with a time limit (limits.py). answers.py searches the collection and builds the
answer, whose fields schemas.py defines; errors become problem answers (problems.py). Untrusted images are
decoded by processes of their own (decoder.py), which decoder_pool.py starts and kills; originals are sent by
files.py. The page is in page/: main.js calls the interface through server.js and never parses a query itself.
"""
