/* SPDX-License-Identifier: MIT */
/* Sockets of whole messages, and the signals that end a server. */
#ifndef SERVICE_SOCKET_H
#define SERVICE_SOCKET_H

/* Each returns a descriptor, or negative errno. */
int socket_listen(const char *path);  /* a socket that nobody listens at is replaced */
int socket_connect(const char *path); /* waits while the server's backlog is full */
int socket_signals(void);	      /* SIGTERM and SIGINT, blocked from now on */

/* --socket of a command line; prints and ends the program where it is not to be had. */
const char *socket_option(const char *name, int argc, char **argv);

#endif
