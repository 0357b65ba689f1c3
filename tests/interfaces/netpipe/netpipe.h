/* What a module of NetPIPE 3.x sees of it when NetPIPE is compiled with -DMPI: the members and functions that modules use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMSIZE 1000000
#define MAX(x, y) ((x) > (y) ? (x) : (y))

typedef struct {
    int nbor, iproc, use_get, no_fence;
} ProtocolStruct;

typedef struct {
    int cache;
    char *r_buff, *r_ptr, *s_buff, *s_ptr;
    int bufflen, tr, rcv, bidir, soffset, roffset;
    ProtocolStruct prot;
} ArgStruct;

void Init(ArgStruct *p, int *argc, char ***argv);
void Setup(ArgStruct *p);
void Sync(ArgStruct *p);
void PrepareToReceive(ArgStruct *p);
void SendData(ArgStruct *p);
void RecvData(ArgStruct *p);
void SendTime(ArgStruct *p, double *t);
void RecvTime(ArgStruct *p, double *t);
void SendRepeat(ArgStruct *p, int rpt);
void RecvRepeat(ArgStruct *p, int *rpt);
void CleanUp(ArgStruct *p);
void Reset(ArgStruct *p);
void AfterAlignmentInit(ArgStruct *p);
