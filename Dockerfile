# An image of async-repl: the program, Python, uv, an init, and an ordinary user whose workspace is a
# volume. What jobs need besides (git, a compiler) belongs in an image FROM this one.
#
#   docker build -t async-repl .
#   docker run -i --rm -v "$PWD:/workspace" async-repl
#
# docs/clients.md, In a container, shows more. .ci/image tries the last stage without Docker; it
# knows only the instructions that are used here.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/async-repl ./cmd/async-repl

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv tini \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /tmp/uv \
    && /tmp/uv/bin/pip install --no-cache-dir uv==0.13.9 \
    && mv /tmp/uv/bin/uv /tmp/uv/bin/uvx /usr/local/bin/ \
    && rm -r /tmp/uv
RUN useradd --uid 1000 --create-home --shell /bin/bash repl && install -d -o repl -g repl -m 700 /workspace
COPY --from=build /out/async-repl /usr/local/bin/async-repl
USER repl
WORKDIR /workspace
VOLUME /workspace
# A container ends with its first process: no engine can wait in it for the next client.
ENV REPL_KEEPER=off
# The init reaps the orphans of jobs and passes the signal to end on.
ENTRYPOINT ["tini", "--", "async-repl"]
